import { Body, Controller, Delete, Get, HttpCode, Param, Post, Put } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';

import { AgentId } from '../agents/index.ts';
import { RequireScope } from '../../http/auth/access.ts';
import { type RequestContext, CurrentRequest } from '../../http/server/request-context.ts';
import { Idempotent } from '../../http/idempotency/idempotency.interceptor.ts';
import { LargeRead } from '../../http/limits/large-reads.interceptor.ts';
import {
  secrecyOf,
  valueSourceOf,
  ReplaceVariableDto,
  SetVariableDto,
  toVariableDto,
  VariableDto,
  VariablePathDto,
} from './environment.dto.ts';
import { ListVariables } from './environment.queries.ts';
import { RemoveVariable, SetVariable } from './environment.commands.ts';

/** The variables of an agent's environment; a change takes effect at its next deployment, restart, or start after a stop. */
@Controller('api/v1/agents/:agentId/env')
export class EnvironmentController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
  ) {}

  @Get()
  @LargeRead()
  @RequireScope('provision', 'deploy', 'manage')
  async list(@AgentId() agentId: string, @CurrentRequest() { accountId }: RequestContext): Promise<VariableDto[]> {
    return (await this.queries.execute(new ListVariables(accountId, agentId))).map(toVariableDto);
  }

  /** Creates the variable, or changes its value or the secret of the account from which it takes its value. */
  @Post()
  @Idempotent()
  @RequireScope('manage')
  async set(
    @AgentId() agentId: string,
    @Body() body: SetVariableDto,
    @CurrentRequest() { context, accountId }: RequestContext,
  ): Promise<VariableDto> {
    const variable = { key: body.key, given: valueSourceOf(body), isSecret: secrecyOf(body) };
    return toVariableDto(await this.commands.execute(new SetVariable(context, accountId, agentId, variable)));
  }

  /**
   * Changes the value of the variable, which stays secret or readable as it was, or the secret from which it takes its value, by which it
   * becomes secret.
   */
  @Put(':key')
  @RequireScope('manage')
  async replace(
    @Param() { agentId, key }: VariablePathDto,
    @Body() body: ReplaceVariableDto,
    @CurrentRequest() { context, accountId }: RequestContext,
  ): Promise<VariableDto> {
    const variable = { key, given: valueSourceOf(body), isSecret: null };
    return toVariableDto(await this.commands.execute(new SetVariable(context, accountId, agentId, variable)));
  }

  @Delete(':key')
  @HttpCode(204)
  @RequireScope('manage')
  remove(@Param() { agentId, key }: VariablePathDto, @CurrentRequest() { context, accountId }: RequestContext): Promise<void> {
    return this.commands.execute(new RemoveVariable(context, accountId, agentId, key));
  }
}
