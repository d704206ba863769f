import { Controller, Get, Query } from '@nestjs/common';
import { ApiOkResponse } from '@nestjs/swagger';
import { AgentId } from '../agents/index.ts';
import { RequireScope } from '../platform/http/auth/access.ts';
import { Operation } from '../platform/http/requests/operation.ts';
import { type Call, CurrentCall } from '../platform/http/call.ts';
import { LargeRead } from '../platform/http/responses/large-reads.interceptor.ts';
import { ReadsModel } from '../platform/http/responses/reads-model.ts';
import type { Streamed } from '../platform/http/response-streams.ts';
import type { LogEntry } from './entries/logs.table.ts';
import { LogQueryDto } from './logs.dto.ts';
import { LogAnswers } from './log-answers.service.ts';

@Controller(['api/v1/agents/:agentId/logs', 'api/agents/:agentId/logs'])
export class LogsController {
  constructor(private readonly logs: LogAnswers) {}

  /** Lists the newest entries, oldest first. With `Accept: text/event-stream` it continues with new entries. */
  @Get()
  @Operation('listAgentLogs')
  @RequireScope('provision', 'deploy', 'manage')
  @LargeRead()
  @ReadsModel('agents', 'log_journal')
  @ApiOkResponse()
  read(@AgentId() agentId: string, @Query() query: LogQueryDto, @CurrentCall() call: Call): Promise<LogEntry[] | Streamed> {
    return this.logs.answer(agentId, query, call);
  }
}
