import { Body, Controller, Delete, Get, HttpCode, Param, Post, Query, StreamableFile } from '@nestjs/common';
import { ApiBody, ApiConsumes, ApiHeader, ApiOkResponse } from '@nestjs/swagger';
import { v5 as uuidv5 } from 'uuid';

import { AgentId } from '../agents/index.ts';
import { argvOf } from '../exec/index.ts';
import { RequireScope } from '../../http/auth/access.ts';
import { Operation } from '../../http/requests/operation.ts';
import { type RequestContext, CurrentRequest } from '../../http/server/request-context.ts';
import { Idempotent } from '../../http/idempotency/idempotency.interceptor.ts';
import { RawBody } from '../../http/server/body.ts';
import { PageQueryDto } from '../../http/requests/page.dto.ts';
import { LargeRead } from '../../http/limits/large-reads.interceptor.ts';
import { ReadsModel } from '../../http/responses/reads-model.ts';
import { EVENT_STREAM, ResponseStreams, type Streamed } from '../../http/server/response-streams.ts';
import { newId } from '../../kernel/ids.ts';
import { CommandResponses } from './command-responses.service.ts';
import { CommandOutputs, OUTPUT_BYTES_MAX } from './command-outputs.service.ts';
import { type CommandCall, CommandRuns } from './command-runs.service.ts';
import {
  CommandDto,
  CommandPathDto,
  InputQueryDto,
  OutputQueryDto,
  SendSignalDto,
  StartCommandDto,
  StartedCommandDto,
  toStartedCommandDto,
} from './commands.dto.ts';

@Controller('api/agents/:agentId/commands')
export class CommandsController {
  constructor(
    private readonly runs: CommandRuns,
    private readonly responses: CommandResponses,
    private readonly outputs: CommandOutputs,
    private readonly streams: ResponseStreams,
  ) {}

  /**
   * Starts a command that continues to run after the response, and after its caller has disconnected. Wakes a sleeping agent. At most 16
   * run in one agent. A command freezes with its agent; a deep sleep, a stop, a restart or a deployment ends it.
   */
  @Post()
  @Operation('startAgentCommand')
  @RequireScope('deploy')
  @Idempotent({ sealedFor: 'agentId' })
  async start(
    @AgentId() agentId: string,
    @Body() body: StartCommandDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<StartedCommandDto> {
    const { command, cwd = null, env = {}, name = null, keep_awake: keepAwakeSeconds = null } = body;
    const order = { command, argv: argvOf(command), cwd, name, environment: env, keepAwakeSeconds };
    return toStartedCommandDto(await this.runs.start(commandCall(agentId, idOf(call, 'command'), call), order));
  }

  /** Lists the commands that run in the agent and the last 50 that ended, the latest first. */
  @Get()
  @Operation('listAgentCommands')
  @RequireScope('provision', 'deploy', 'manage')
  @LargeRead()
  @ReadsModel('agents', 'commands')
  async list(@AgentId() agentId: string, @Query() query: PageQueryDto, @CurrentRequest() call: RequestContext): Promise<CommandDto[]> {
    const { limit, place } = call.page(query, 'time', 'text');
    const { items, next } = await this.responses.list(agentId, call.accountId, limit, place);
    if (next !== null) call.linkNextPage(next);
    return items;
  }

  @Get(':commandId')
  @Operation('getAgentCommand')
  @RequireScope('provision', 'deploy', 'manage')
  @ReadsModel('agents', 'commands')
  show(@Param() { agentId, commandId }: CommandPathDto, @CurrentRequest() call: RequestContext): Promise<CommandDto> {
    return this.responses.show(agentId, call.accountId, commandId.toLowerCase());
  }

  /**
   * Sends the output of the command from the offset on: at most 1 MiB, with the next offset in `X-Next-Offset`, and in `X-Offset` the
   * offset of the first byte, which is a later one if the requested part is no longer kept. With `Accept: text/event-stream` it continues
   * with what is printed later, until the command has ended. Wakes a sleeping agent, unless there is nothing more to read.
   */
  @Get(':commandId/output')
  @Operation('readAgentCommandOutput')
  @RequireScope('provision', 'deploy', 'manage')
  @LargeRead()
  @ApiHeader({ name: 'Last-Event-ID', required: false, description: 'The offset to go on from, after a stream broke off.' })
  @ApiOkResponse({
    content: {
      'application/octet-stream': { schema: { type: 'string', format: 'binary' } },
      [EVENT_STREAM]: { schema: { type: 'string' } },
    },
  })
  async output(
    @Param() { agentId, commandId }: CommandPathDto,
    @Query() query: OutputQueryDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<StreamableFile | Streamed> {
    const order = commandCall(agentId, commandId.toLowerCase(), call);
    const from = offsetOf(call.lastEventId) ?? query.offset ?? 0;
    if (call.accepts(EVENT_STREAM)) return this.streams.events(call, (signal) => this.outputs.follow(order, from, signal));
    const { offset, nextOffset, bytes } = await this.outputs.read(order, from, query.limit ?? OUTPUT_BYTES_MAX);
    call.setHeader('content-type', 'application/octet-stream');
    call.setHeader('content-length', String(bytes.length));
    call.setHeader('cache-control', 'private, no-cache');
    call.setHeader('x-offset', String(offset));
    call.setHeader('x-next-offset', String(nextOffset));
    return new StreamableFile(bytes);
  }

  /** Writes the bytes of the body to the input of the command, and ends the input with `close=true`. They are not kept. */
  @Post(':commandId/stdin')
  @HttpCode(204)
  @RequireScope('deploy')
  @Idempotent({ sealedFor: 'agentId' })
  @RawBody('buffer')
  @ApiConsumes('application/octet-stream')
  @ApiBody({ schema: { type: 'string', format: 'binary' } })
  async write(
    @Param() { agentId, commandId }: CommandPathDto,
    @Query() { close }: InputQueryDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<void> {
    await this.runs.write(commandCall(agentId, commandId.toLowerCase(), call), idOf(call, 'input'), call.rawBody, close === 'true');
  }

  /** Sends a signal to the process group of the command. */
  @Post(':commandId/signal')
  @HttpCode(204)
  @RequireScope('deploy')
  @Idempotent({ sealedFor: 'agentId' })
  async signal(
    @Param() { agentId, commandId }: CommandPathDto,
    @Body() { signal }: SendSignalDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<void> {
    await this.runs.signal(commandCall(agentId, commandId.toLowerCase(), call), idOf(call, 'signal'), signal);
  }

  /** Kills the command with all that it started, if it runs, and forgets it and its output. */
  @Delete(':commandId')
  @Operation('deleteAgentCommand')
  @HttpCode(204)
  @RequireScope('deploy')
  async remove(@Param() { agentId, commandId }: CommandPathDto, @CurrentRequest() call: RequestContext): Promise<void> {
    await this.runs.remove(commandCall(agentId, commandId.toLowerCase(), call));
  }
}

function commandCall(agentId: string, commandId: string, call: RequestContext): CommandCall {
  return {
    context: call.context,
    accountId: call.accountId,
    agentId,
    commandId,
    signal: call.goneSignal(),
    onWoken: () => call.setAgentWoken(),
  };
}

/** Returns an id, which is the same for every try under one `Idempotency-Key`. */
function idOf(call: RequestContext, kind: string): string {
  return call.seed === null ? newId() : uuidv5(kind, call.seed);
}

function offsetOf(eventId: string | undefined): number | null {
  return eventId !== undefined && /^\d{1,15}$/.test(eventId) ? Number(eventId) : null;
}
