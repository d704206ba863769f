import { Controller, Get, Query } from '@nestjs/common';
import { ApiOkResponse } from '@nestjs/swagger';
import { AgentId } from '../agents/index.ts';
import { RequireScope } from '../../http/auth/access.ts';
import { Operation } from '../../http/requests/operation.ts';
import { type RequestContext, CurrentRequest } from '../../http/server/request-context.ts';
import { LargeRead } from '../../http/limits/large-reads.interceptor.ts';
import { ReadsModel } from '../../http/responses/reads-model.ts';
import type { Streamed } from '../../http/server/response-streams.ts';
import type { LogEntry } from './entries/logs.table.ts';
import { LogQueryDto } from './logs.dto.ts';
import { LogResponses } from './log-responses.service.ts';

@Controller(['api/v1/agents/:agentId/logs', 'api/agents/:agentId/logs'])
export class LogsController {
  constructor(private readonly logs: LogResponses) {}

  /** Lists the newest entries, oldest first. With `Accept: text/event-stream` it continues with new entries. */
  @Get()
  @Operation('listAgentLogs')
  @RequireScope('provision', 'deploy', 'manage')
  @LargeRead()
  @ReadsModel('agents', 'log_journal')
  @ApiOkResponse()
  read(@AgentId() agentId: string, @Query() query: LogQueryDto, @CurrentRequest() call: RequestContext): Promise<LogEntry[] | Streamed> {
    return this.logs.respond(agentId, query, call);
  }
}
