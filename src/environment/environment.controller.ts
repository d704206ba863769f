import { Body, Controller, Delete, Get, HttpCode, Param, Post, Put } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import { IsBoolean } from 'class-validator';

import { AgentId, checked, Given } from '../agents/index.ts';
import { Context, CurrentCaller, RequireScope } from '../platform/http/access.ts';
import type { Caller, CommandContext } from '../platform/http/caller.ts';
import { Idempotent } from '../platform/http/idempotency.ts';
import { keyProblem, valueProblem } from './environment.decider.ts';
import { ListVariables, RemoveVariable, SetVariable, type KeyedVariable } from './environment.handlers.ts';

const text = (problem: (value: string) => string | null) => (value: unknown) =>
  typeof value === 'string' ? problem(value) : 'must be a string';

export class ReplaceVariableRequest {
  /** At most 32 KB. */
  @checked('variableValue', text(valueProblem))
  value: string;
}

export class SetVariableRequest extends ReplaceVariableRequest {
  /** Letters, digits and _; not PORT, and not beginning with MOORING_. */
  @checked('variableKey', text(keyProblem))
  key: string;

  /** Encrypted at rest and masked in every answer. */
  @Given()
  @IsBoolean()
  is_secret?: boolean;
}

export class VariableView {
  key: string;
  /** Masked where it is secret. */
  value: string;
  is_secret: boolean;
  updated_at: string;
}

function variableView({ key, isSecret, value, mask, setAt }: KeyedVariable): VariableView {
  return { key, value: (isSecret ? mask : value) ?? '', is_secret: isSecret, updated_at: setAt };
}

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

  /** Makes the variable, or gives it another value. */
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
    return variableView(await this.commands.execute(new SetVariable(context, accountId, agentId, key, value, is_secret)));
  }

  /** Gives it another value; it stays secret or not. */
  @Put(':key')
  @RequireScope('manage')
  async replace(
    @AgentId() agentId: string,
    @Param('key') key: string,
    @Body() { value }: ReplaceVariableRequest,
    @CurrentCaller() { accountId }: Caller,
    @Context() context: CommandContext,
  ): Promise<VariableView> {
    return variableView(await this.commands.execute(new SetVariable(context, accountId, agentId, key, value, null)));
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
