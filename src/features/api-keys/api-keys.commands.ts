import { Command } from '@nestjs/cqrs';

import type { DatedState } from '../../eventsourcing/aggregates/dated-state.ts';
import type { Scope } from '../../kernel/context/caller.ts';
import type { CommandContext } from '../../kernel/context/command-context.ts';
import type { ApiKey } from './api-keys.decider.ts';

export interface IssuedKey {
  key: DatedState<ApiKey>;
  /** The key itself, which is returned only once. */
  rawKey: string;
}

/** Issues a key. It is valid when the command returns or, if the read model is far behind, as soon as that contains it. */
export class IssueApiKey extends Command<IssuedKey> {
  constructor(
    readonly context: CommandContext,
    readonly accountId: string,
    readonly key: { name: string; scopes: Scope[]; expiresInDays: number | null },
    /** A UUID that is the same for every try of the request; null means that there is no other try. */
    readonly seed: string | null,
  ) {
    super();
  }
}

/**
 * Revokes a key. It is refused on every replica when the command returns or, if the read model is far behind, as soon as that contains
 * it. Throws `key_not_found`.
 */
export class RevokeApiKey extends Command<void> {
  constructor(
    readonly context: CommandContext,
    readonly accountId: string,
    readonly keyId: string,
  ) {
    super();
  }
}
