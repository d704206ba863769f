import { Body, Controller, Delete, Get, HttpCode, Patch, Post, Query, Req, Res } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';

import { RequireScope } from '../platform/http/auth/access.ts';
import { Context, CurrentCaller } from '../platform/http/request.ts';
import type { Caller } from '../platform/context/caller.ts';
import type { CommandContext } from '../platform/context/command-context.ts';
import { IfMatch } from '../platform/http/responses/etag.ts';
import { ReadsModel } from '../platform/http/responses/positions.ts';
import { PreferredWait } from '../platform/http/responses/prefer.ts';
import { AgentAnswers } from './agent-answers.ts';
import { AgentId } from './agent-id.ts';
import { agentView, AgentView, ListAgentsQuery, PatchAgent, WaitQuery } from './agent.dto.ts';
import { ConfigureAgent, DeleteAgent, RestartAgent, SleepAgent, StartAgent, StopAgent } from './agent.handlers.ts';

type Revisions = number[] | null;

/** Serves agents on the Provisioning API. */
@Controller('api/v1/agents')
export class AgentsV1Controller {
  constructor(private readonly answers: AgentAnswers) {}

  /** Lists the account's agents, newest first. */
  @Get()
  @RequireScope('provision')
  @ReadsModel('agents')
  list(
    @Query() query: ListAgentsQuery,
    @CurrentCaller() { accountId }: Caller,
    @Req() request: FastifyRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<AgentView[]> {
    return this.answers.list(agentView, accountId, query, request, reply);
  }

  @Get(':agentId')
  @RequireScope('provision')
  @ReadsModel('agents')
  get(
    @AgentId() agentId: string,
    @CurrentCaller() { accountId }: Caller,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<AgentView> {
    return this.answers.show(agentView, accountId, agentId, reply);
  }

  /** Answers as soon as the agent has one of the statuses, or with 408 `wait_timeout` if that takes too long. */
  @Get(':agentId/wait')
  @RequireScope('provision', 'deploy', 'manage')
  wait(
    @AgentId() agentId: string,
    @Query() query: WaitQuery,
    @CurrentCaller() { accountId }: Caller,
    @Context() context: CommandContext,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<AgentView> {
    return this.answers.wait(agentView, { context, accountId, agentId }, query, reply);
  }

  /** Changes the settings that the body names. */
  @Patch(':agentId')
  @RequireScope('manage')
  configure(
    @AgentId() agentId: string,
    @Body() changes: PatchAgent,
    @CurrentCaller() { accountId }: Caller,
    @Context() context: CommandContext,
    @IfMatch() ifMatch: Revisions,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<AgentView> {
    return this.answers.change(agentView, new ConfigureAgent(context, accountId, agentId, ifMatch, changes), null, reply);
  }

  /** Starts the agent, or wakes it if it sleeps. */
  @Post(':agentId/start')
  @HttpCode(202)
  @RequireScope('deploy')
  start(
    @AgentId() agentId: string,
    @CurrentCaller() { accountId }: Caller,
    @Context() context: CommandContext,
    @IfMatch() ifMatch: Revisions,
    @PreferredWait() wait: number | null,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<AgentView> {
    return this.answers.change(agentView, new StartAgent(context, accountId, agentId, ifMatch), wait, reply);
  }

  @Post(':agentId/stop')
  @HttpCode(202)
  @RequireScope('deploy')
  stop(
    @AgentId() agentId: string,
    @CurrentCaller() { accountId }: Caller,
    @Context() context: CommandContext,
    @IfMatch() ifMatch: Revisions,
    @PreferredWait() wait: number | null,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<AgentView> {
    return this.answers.change(agentView, new StopAgent(context, accountId, agentId, ifMatch), wait, reply);
  }

  /** Replaces the agent's container with a new one, with the current variables. */
  @Post(':agentId/restart')
  @HttpCode(202)
  @RequireScope('deploy')
  restart(
    @AgentId() agentId: string,
    @CurrentCaller() { accountId }: Caller,
    @Context() context: CommandContext,
    @IfMatch() ifMatch: Revisions,
    @PreferredWait() wait: number | null,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<AgentView> {
    return this.answers.change(agentView, new RestartAgent(context, accountId, agentId, ifMatch), wait, reply);
  }

  @Post(':agentId/sleep')
  @HttpCode(202)
  @RequireScope('deploy')
  sleep(
    @AgentId() agentId: string,
    @CurrentCaller() { accountId }: Caller,
    @Context() context: CommandContext,
    @IfMatch() ifMatch: Revisions,
    @PreferredWait() wait: number | null,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<AgentView> {
    return this.answers.change(agentView, new SleepAgent(context, accountId, agentId, ifMatch), wait, reply);
  }

  /**
   * Deletes the agent's container, volume and record. Answers 204 once they are gone, or 202 if that takes over 30 s and continues by
   * itself.
   */
  @Delete(':agentId')
  @HttpCode(204)
  @RequireScope('manage')
  remove(
    @AgentId() agentId: string,
    @CurrentCaller() { accountId }: Caller,
    @Context() context: CommandContext,
    @IfMatch() ifMatch: Revisions,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<AgentView | undefined> {
    return this.answers.remove(agentView, new DeleteAgent(context, accountId, agentId, ifMatch), reply);
  }
}
