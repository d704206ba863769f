import { Body, Controller, Delete, Get, HttpCode, Param, Post, Put } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';

import { AgentId } from '../agents/index.ts';
import { RequireScope } from '../platform/http/auth/access.ts';
import { Context, CurrentCaller } from '../platform/http/request.ts';
import type { Caller } from '../platform/context/caller.ts';
import type { CommandContext } from '../platform/context/command-context.ts';
import { Idempotent } from '../platform/http/idempotency/idempotency.interceptor.ts';
import { ReplaceVariableRequest, SetVariableRequest, variableView, VariableView } from './environment.dto.ts';
import { ListVariables, RemoveVariable, SetVariable } from './environment.handlers.ts';

/** The variables of an agent's environment; a change takes effect at its next deployment, restart, or start after a stop. */
@Controller('api/v1/agents/:agentId/env')
export class EnvironmentController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
  ) {}

  @Get()
  @RequireScope('provision', 'deploy', 'manage')
  async list(@AgentId() agentId: string, @CurrentCaller() { accountId }: Caller): Promise<VariableView[]> {
    return (await this.queries.execute(new ListVariables(accountId, agentId))).map(variableView);
  }

  /** Makes the variable or changes its value. */
  @Post()
  @Idempotent()
  @RequireScope('manage')
  async set(
    @AgentId() agentId: string,
    @Body() body: SetVariableRequest,
    @CurrentCaller() { accountId }: Caller,
    @Context() context: CommandContext,
  ): Promise<VariableView> {
    const { key, value, is_secret = false } = body;
    return variableView(await this.commands.execute(new SetVariable(context, accountId, agentId, { key, value, isSecret: is_secret })));
  }

  /** Changes the value of the variable, which stays secret or readable as it was. */
  @Put(':key')
  @RequireScope('manage')
  async replace(
    @AgentId() agentId: string,
    @Param('key') key: string,
    @Body() { value }: ReplaceVariableRequest,
    @CurrentCaller() { accountId }: Caller,
    @Context() context: CommandContext,
  ): Promise<VariableView> {
    return variableView(await this.commands.execute(new SetVariable(context, accountId, agentId, { key, value, isSecret: null })));
  }

  @Delete(':key')
  @HttpCode(204)
  @RequireScope('manage')
  remove(
    @AgentId() agentId: string,
    @Param('key') key: string,
    @CurrentCaller() { accountId }: Caller,
    @Context() context: CommandContext,
  ): Promise<void> {
    return this.commands.execute(new RemoveVariable(context, accountId, agentId, key));
  }
}
