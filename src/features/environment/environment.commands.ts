import { Command } from '@nestjs/cqrs';

import type { CommandContext } from '../../kernel/context/command-context.ts';
import type { KeyedVariable } from './environment.decider.ts';

/** The source of a variable's value: a literal value, or a secret of the account. */
export type ValueSource = { value: string } | { secret: string };

/**
 * Sets the value of a variable, which takes effect at the agent's next start. Throws `agent_not_found`, `env_var_not_found`,
 * `secret_not_found`, `invalid_request`.
 */
export class SetVariable extends Command<KeyedVariable> {
  constructor(
    readonly context: CommandContext,
    readonly accountId: string,
    readonly agentId: string,
    readonly variable: {
      key: string;
      given: ValueSource;
      /** The value null keeps the variable as it is, and requires that it exists. */
      isSecret: boolean | null;
    },
  ) {
    super();
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
