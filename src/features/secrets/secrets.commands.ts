import { Command } from '@nestjs/cqrs';

import type { CommandContext } from '../../kernel/context/command-context.ts';
import type { NamedSecret } from './secrets.decider.ts';

export interface StoredSecret {
  secret: NamedSecret;
  /** The value is false if an earlier value was replaced. */
  isNew: boolean;
}

/** Creates a secret of the account or replaces its value, which agents get at their next boot. Throws `invalid_request`. */
export class StoreSecret extends Command<StoredSecret> {
  constructor(
    readonly context: CommandContext,
    readonly accountId: string,
    readonly name: string,
    readonly value: string,
  ) {
    super();
  }
}

/** Removes a secret. Throws `not_found`, `secret_in_use`. */
export class RemoveSecret extends Command<void> {
  constructor(
    readonly context: CommandContext,
    readonly accountId: string,
    readonly name: string,
  ) {
    super();
  }
}
