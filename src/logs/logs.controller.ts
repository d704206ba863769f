import { Controller, Get, Query, Req, Res } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { AgentId } from '../agents/index.ts';
import { RequireScope } from '../platform/http/auth/access.ts';
import { CurrentCaller } from '../platform/http/request.ts';
import type { Caller } from '../platform/context/caller.ts';
import { ReadsModel } from '../platform/http/responses/positions.ts';
import { LogQuery } from './log.dto.ts';
import { LogsService } from './logs.service.ts';

@Controller(['api/v1/agents/:agentId/logs', 'api/agents/:agentId/logs'])
export class LogsController {
  constructor(private readonly logs: LogsService) {}

  /** Lists the newest entries, oldest first. With `Accept: text/event-stream` it continues with new entries. */
  @Get()
  @RequireScope('provision', 'deploy', 'manage')
  @ReadsModel('agents', 'log_journal')
  read(
    @AgentId() agentId: string,
    @Query() query: LogQuery,
    @CurrentCaller() caller: Caller,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    return this.logs.answer(agentId, query, caller, request, reply);
  }
}
