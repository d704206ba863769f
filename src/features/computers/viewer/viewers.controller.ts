import { Body, Controller, Get, HttpCode, Post, Query } from '@nestjs/common';
import { ApiQuery } from '@nestjs/swagger';
import { v5 as uuidv5 } from 'uuid';

import { RequireScope } from '../../../http/auth/access.ts';
import { type RequestContext, CurrentRequest } from '../../../http/server/request-context.ts';
import { Idempotent } from '../../../http/idempotency/idempotency.interceptor.ts';
import { Operation } from '../../../http/requests/operation.ts';
import { ReadsModel } from '../../../http/responses/reads-model.ts';
import { newId } from '../../../kernel/ids.ts';
import { ComputerId } from '../fields/computer-id.ts';
import { ViewerLinks } from './viewer-links.service.ts';
import { ViewerSessions } from './viewer-sessions.service.ts';
import {
  ClosedSessionsDto,
  CloseSessionsDto,
  DEFAULT_TTL_SECONDS,
  ListSessionsDto,
  OpenViewerDto,
  SessionDto,
  toSessionDto,
  ViewerDto,
} from './viewers.dto.ts';

@Controller('api/v1/computers/:computerId')
export class ViewersController {
  constructor(
    private readonly sessions: ViewerSessions,
    private readonly links: ViewerLinks,
  ) {}

  /**
   * Creates a link with which a person views or controls the computer in a browser. Wakes a sleeping computer. The link works for the first
   * browser that opens it, until it expires, the session is closed, the computer sleeps, or the API key that created the link has ended.
   */
  @Post('viewer')
  @ApiQuery({
    name: 'wake',
    required: false,
    type: Boolean,
    description: 'False refuses a computer that is not awake in place of waking it.',
  })
  @Operation('openComputerViewer')
  @RequireScope('computers')
  @Idempotent()
  async open(
    @ComputerId() computerId: string,
    @Body() { mode = 'control', ttl_seconds: ttlSeconds = DEFAULT_TTL_SECONDS, exclusive = false, label }: OpenViewerDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<ViewerDto> {
    const sessionId = call.seed === null ? newId() : uuidv5('viewer', call.seed);
    const { accountId, context } = call;
    const order = { computerId, accountId, sessionId, mode, exclusive, label: label ?? null, ttlSeconds, wake: call.mayWake };
    const link = await this.sessions.create({ ...order, context, signal: call.goneSignal() });
    call.setHeader('cache-control', 'no-store');
    return { session_id: sessionId, url: this.links.urlOf(link, call.origin), mode, expires_at: new Date(link.expiresAt).toISOString() };
  }

  /** Lists the sessions of the computer, the newest first, until 30 days after they expired. */
  @Get('sessions')
  @Operation('listComputerSessions')
  @RequireScope('computers')
  @ReadsModel('viewer_sessions')
  async list(
    @ComputerId() computerId: string,
    @Query() query: ListSessionsDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<SessionDto[]> {
    const { limit, place } = call.page(query, 'time', 'text');
    const sessions = await this.sessions.list(computerId, call.accountId, query.status ?? null, { limit, after: place });
    call.linkAfter(sessions, limit, ({ row }) => [row.created_at.toISOString(), row.session_id]);
    return sessions.map(toSessionDto);
  }

  /** Closes a session of the computer, or all: their links are dead from then on, and open connections are cut. */
  @Post('sessions/close')
  @Operation('closeComputerSessions')
  @HttpCode(200)
  @RequireScope('computers')
  async close(
    @ComputerId() computerId: string,
    @Body() { session_id: sessionId }: CloseSessionsDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<ClosedSessionsDto> {
    return { closed: await this.sessions.close(computerId, call.accountId, sessionId?.toLowerCase() ?? null, call.context) };
  }
}
