import { CommandHandler, type ICommandHandler, type IQueryHandler, QueryHandler } from '@nestjs/cqrs';

import { agentStream } from '../agents/index.ts';
import { Keyring } from '../platform/crypto/keyring.ts';
import { Aggregates } from '../platform/event-store/aggregates.ts';
import {
  environmentDecider,
  keyedVariables,
  maskOf,
  ownedEnvironment,
  type EnvironmentCommand,
  type KeyedVariable,
} from './environment.decider.ts';
import { variableContext } from './variables.service.ts';
import { RemoveVariable, SetVariable } from './environment.commands.ts';
import { ListVariables } from './environment.queries.ts';

@CommandHandler(SetVariable)
export class SetVariableHandler implements ICommandHandler<SetVariable> {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly keyring: Keyring,
  ) {}

  async execute({ context, accountId, agentId, variable: asked }: SetVariable): Promise<KeyedVariable> {
    const { key, value: plain, isSecret } = asked;
    const stream = agentStream(agentId);
    // Ownership is checked first, so that another account can't make a data key for this agent.
    ownedEnvironment((await this.aggregates.load(stream, environmentDecider)).state, accountId);
    const sealed = isSecret === false ? null : await this.keyring.seal(agentId, variableContext(key), plain);
    const value = { plain, sealed, mask: maskOf(plain) };
    const command: EnvironmentCommand =
      isSecret === null ? { type: 'ReplaceVariable', accountId, key, value } : { type: 'SetVariable', accountId, key, isSecret, value };
    const { state } = await this.aggregates.execute(stream, environmentDecider, command, context);
    const variable = state.variables.get(key);
    if (variable === undefined) throw new Error(`the variable ${key} is not there after it was set`);
    return { key, ...variable };
  }
}

@CommandHandler(RemoveVariable)
export class RemoveVariableHandler implements ICommandHandler<RemoveVariable> {
  constructor(private readonly aggregates: Aggregates) {}

  async execute({ context, accountId, agentId, key }: RemoveVariable): Promise<void> {
    await this.aggregates.execute(agentStream(agentId), environmentDecider, { type: 'RemoveVariable', accountId, key }, context);
  }
}

@QueryHandler(ListVariables)
export class ListVariablesHandler implements IQueryHandler<ListVariables> {
  constructor(private readonly aggregates: Aggregates) {}

  async execute({ accountId, agentId }: ListVariables): Promise<KeyedVariable[]> {
    const { state } = await this.aggregates.load(agentStream(agentId), environmentDecider);
    return keyedVariables(ownedEnvironment(state, accountId));
  }
}
