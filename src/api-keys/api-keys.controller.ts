import { Body, Controller, Delete, Get, HttpCode, Param, Post, Query, Req, Res } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import type { FastifyReply, FastifyRequest } from 'fastify';

import { Clock } from '../platform/clock.ts';
import { RequireSession } from '../platform/http/auth/access.ts';
import { Context, CurrentCaller } from '../platform/http/request.ts';
import { type Caller, scopes } from '../platform/context/caller.ts';
import type { CommandContext } from '../platform/context/command-context.ts';
import { Idempotent, IdempotencyKey } from '../platform/http/idempotency/idempotency.interceptor.ts';
import { decodeCursor, encodeCursor, linkNextPage } from '../platform/http/responses/paging.ts';
import { PageQuery } from '../platform/http/requests/page.dto.ts';
import { ReadsModel } from '../platform/http/responses/positions.ts';
import { createdKeyView, CreatedKeyView, KeyCreation, keyView, KeyView } from './api-key.dto.ts';
import { IssueApiKey, RevokeApiKey } from './api-keys.handlers.ts';
import { apiKeysProjection, GetWrittenApiKey, ListApiKeys } from './api-keys.projection.ts';

@Controller('api/v1/keys')
@RequireSession()
export class ApiKeysController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
    private readonly clock: Clock,
  ) {}

  /** Issues a key. Only this response contains the key itself. */
  @Post()
  @Idempotent()
  async create(
    @Body() { name, scopes: wanted, expires_in_days }: KeyCreation,
    @CurrentCaller() caller: Caller,
    @Context() context: CommandContext,
    @IdempotencyKey() seed: string | null,
  ): Promise<CreatedKeyView> {
    const key = { name, scopes: wanted ?? [...scopes], expiresInDays: expires_in_days ?? null };
    const { keyId, rawKey } = await this.commands.execute(new IssueApiKey(context, caller.accountId, key, seed));
    const row = await this.queries.execute(new GetWrittenApiKey(caller.accountId, keyId));
    return createdKeyView(row, this.clock.now(), rawKey);
  }

  /** Lists the account's keys, newest first, including revoked ones. */
  @Get()
  @ReadsModel(apiKeysProjection.name)
  async list(
    @Query() { limit = 50, cursor }: PageQuery,
    @CurrentCaller() caller: Caller,
    @Req() request: FastifyRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<KeyView[]> {
    const rows = await this.queries.execute(new ListApiKeys(caller.accountId, limit, decodeCursor(cursor, 2)));
    const last = rows.at(-1);
    if (rows.length === limit && last) linkNextPage(request, reply, encodeCursor([last.created_at.toISOString(), last.key_id]));
    const now = this.clock.now();
    return rows.map((row) => keyView(row, now));
  }

  /** Revokes a key, which is refused as soon as this call has answered. */
  @Delete(':keyId')
  @HttpCode(204)
  revoke(@Param('keyId') keyId: string, @CurrentCaller() caller: Caller, @Context() context: CommandContext): Promise<void> {
    return this.commands.execute(new RevokeApiKey(context, caller.accountId, keyId));
  }
}
