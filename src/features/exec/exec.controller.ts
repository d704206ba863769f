import { Body, Controller, HttpCode, Post } from '@nestjs/common';
import { ApiOkResponse } from '@nestjs/swagger';
import { v5 as uuidv5 } from 'uuid';

import { AgentId } from '../agents/index.ts';
import { RequireScope } from '../../http/auth/access.ts';
import { Operation } from '../../http/requests/operation.ts';
import { type RequestContext, CurrentRequest } from '../../http/server/request-context.ts';
import { Idempotent } from '../../http/idempotency/idempotency.interceptor.ts';
import { EVENT_STREAM, ResponseStreams, type Streamed } from '../../http/server/response-streams.ts';
import { JsonBody } from '../../http/server/body.ts';
import { newId } from '../../kernel/ids.ts';
import { DEFAULT_TIMEOUT_SECONDS, EXEC_BODY_LIMIT, ExecDto, type ExecResultDto } from './exec.dto.ts';
import { Exec, type ExecOrder } from './exec.service.ts';
import { execEventsOf } from './exec-stream.ts';

@Controller('api/agents/:agentId/exec')
export class ExecController {
  constructor(
    private readonly exec: Exec,
    private readonly streams: ResponseStreams,
  ) {}

  /**
   * Runs a command in the agent's container and waits for its end. Wakes a sleeping agent. With `Accept: text/event-stream` the output is
   * streamed as it comes. If the caller goes away, the command is killed with its children.
   */
  @Post()
  @Operation('runAgentCommand')
  @HttpCode(200)
  @RequireScope('deploy')
  @Idempotent({ sealedFor: 'agentId' })
  @JsonBody(EXEC_BODY_LIMIT)
  @ApiOkResponse()
  async run(@AgentId() agentId: string, @Body() body: ExecDto, @CurrentRequest() call: RequestContext): Promise<ExecResultDto | Streamed> {
    const order = (signal: AbortSignal): ExecOrder => ({
      context: call.context,
      accountId: call.accountId,
      agentId,
      execId: call.seed === null ? newId() : uuidv5('exec', call.seed),
      command: body.command,
      cwd: body.cwd ?? null,
      session: body.session ?? null,
      environment: body.env ?? {},
      stdin: body.stdin === undefined ? null : Buffer.from(body.stdin),
      timeoutSeconds: body.timeout ?? DEFAULT_TIMEOUT_SECONDS,
      signal,
    });
    const onStart = (woken: boolean) => {
      if (woken) call.setAgentWoken();
    };
    if (call.accepts(EVENT_STREAM)) return this.streams.events(call, (signal) => execEventsOf(this.exec, order(signal), onStart));
    const { stdout, stderr, ...result } = await this.exec.run(order(call.goneSignal()), { onStart });
    return { ...result, stdout: stdout.toString(), stderr: stderr.toString() };
  }
}
