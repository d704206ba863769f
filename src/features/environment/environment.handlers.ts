import { CommandHandler, type ICommandHandler, type IQueryHandler, QueryHandler } from '@nestjs/cqrs';

import { agentStream } from '../agents/index.ts';
import { Keyring } from '../../crypto/keyring.ts';
import { Aggregates } from '../../eventsourcing/aggregates/aggregates.ts';
import { maskOf } from '../secrets/index.ts';
import { AccountSecrets } from '../secrets/services.ts';
import {
  environmentDecider,
  keyedVariables,
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
    private readonly secrets: AccountSecrets,
  ) {}

  async execute(command: SetVariable): Promise<KeyedVariable> {
    const { context, accountId, agentId, variable } = command;
    const { key } = variable;
    const stream = agentStream(agentId);
    // Ownership is checked first, so that another account can't create a data key for this agent.
    ownedEnvironment((await this.aggregates.load(stream, environmentDecider)).state, accountId);
    const { state } = await this.aggregates.execute(stream, environmentDecider, await this.decision(command), context);
    const set = state.variables.get(key);
    if (set === undefined) throw new Error(`the variable ${key} is not there after it was set`);
    const [masked] = await withSecretMasks([{ key, ...set }], this.secrets, accountId);
    return masked ?? { key, ...set };
  }

  private async decision({ accountId, agentId, variable: { key, given, isSecret } }: SetVariable): Promise<EnvironmentCommand> {
    if ('secret' in given) {
      await this.secrets.refuseUnknown(accountId, [given.secret], 'secret');
      return { type: 'LinkVariable', accountId, key, secret: given.secret, mustExist: isSecret === null };
    }
    const { value: plain } = given;
    const sealed = isSecret === false ? null : await this.keyring.seal(agentId, variableContext(key), plain);
    const value = { plain, sealed, mask: maskOf(plain) };
    return isSecret === null
      ? { type: 'ReplaceVariable', accountId, key, value }
      : { type: 'SetVariable', accountId, key, isSecret, value };
  }
}

/** Returns the variables; those that take their values from secrets of the account have the masks of these. */
async function withSecretMasks(variables: KeyedVariable[], secrets: AccountSecrets, accountId: string): Promise<KeyedVariable[]> {
  if (variables.every(({ secret }) => secret === null)) return variables;
  const known = await secrets.of(accountId);
  const maskOfSecret = (secret: string) => known.get(secret)?.mask ?? null;
  return variables.map((variable) => (variable.secret === null ? variable : { ...variable, mask: maskOfSecret(variable.secret) }));
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
  constructor(
    private readonly aggregates: Aggregates,
    private readonly secrets: AccountSecrets,
  ) {}

  async execute({ accountId, agentId }: ListVariables): Promise<KeyedVariable[]> {
    const { state } = await this.aggregates.load(agentStream(agentId), environmentDecider);
    return withSecretMasks(keyedVariables(ownedEnvironment(state, accountId)), this.secrets, accountId);
  }
}
