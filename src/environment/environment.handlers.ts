import { Command, CommandHandler, Query, QueryHandler, type ICommandHandler, type IQueryHandler } from '@nestjs/cqrs';

import { agentStream } from '../agents/index.ts';
import { Keyring } from '../platform/crypto/sealed.ts';
import { Aggregates } from '../platform/event-store/aggregates.ts';
import type { CommandContext } from '../platform/context/command-context.ts';
import {
  environmentDecider,
  keyedVariables,
  maskOf,
  ownedEnvironment,
  type EnvironmentCommand,
  type KeyedVariable,
} from './environment.decider.ts';
import { variableContext } from './variables.service.ts';

/**
 * Sets the value of a variable, which takes effect at the agent's next start. Throws `agent_not_found`, `env_var_not_found`,
 * `invalid_request`.
 */
export class SetVariable extends Command<KeyedVariable> {
  constructor(
    readonly context: CommandContext,
    readonly accountId: string,
    readonly agentId: string,
    readonly variable: {
      key: string;
      value: string;
      /** The value null keeps the variable as it is, and requires that it exists. */
      isSecret: boolean | null;
    },
  ) {
    super();
  }
}

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

/** Removes a variable. Throws `agent_not_found`, `env_var_not_found`. */
export class RemoveVariable extends Command<void> {
  constructor(
    readonly context: CommandContext,
    readonly accountId: string,
    readonly agentId: string,
    readonly key: string,
  ) {
    super();
  }
}

@CommandHandler(RemoveVariable)
export class RemoveVariableHandler implements ICommandHandler<RemoveVariable> {
  constructor(private readonly aggregates: Aggregates) {}

  async execute({ context, accountId, agentId, key }: RemoveVariable): Promise<void> {
    await this.aggregates.execute(agentStream(agentId), environmentDecider, { type: 'RemoveVariable', accountId, key }, context);
  }
}

/** Lists the agent's variables by name, with masks in place of secrets. Throws `agent_not_found`. */
export class ListVariables extends Query<KeyedVariable[]> {
  constructor(
    readonly accountId: string,
    readonly agentId: string,
  ) {
    super();
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
