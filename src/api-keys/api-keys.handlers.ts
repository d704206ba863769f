import { Command, CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import { v5 as uuidv5, v7 as uuidv7 } from 'uuid';

import { Aggregates } from '../platform/event-store/aggregates.ts';
import type { Scope } from '../platform/context/caller.ts';
import type { CommandContext } from '../platform/context/command-context.ts';
import { Refusal } from '../platform/errors/refusal.ts';
import { apiKeyDecider } from './api-keys.decider.ts';
import { newRawKey, prefixOf, sha256Of } from './raw-key.ts';

/** The most tries of one request that may die after their append; each leaves a key that no caller received. */
const MAX_LOST = 20;

export interface IssuedKey {
  keyId: string;
  /** The key itself, which is returned only once. */
  rawKey: string;
}

/** Issues a key, which is valid when this returns, or, if the read model is far behind, as soon as that contains it. */
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

@CommandHandler(IssueApiKey)
export class IssueApiKeyHandler implements ICommandHandler<IssueApiKey> {
  constructor(private readonly aggregates: Aggregates) {}

  async execute({ context, accountId, key, seed }: IssueApiKey): Promise<IssuedKey> {
    const keyId = seed === null ? uuidv7() : await this.nextId(context, accountId, seed);
    const rawKey = newRawKey();
    const command = { type: 'IssueApiKey' as const, accountId, keyId, ...key, prefix: prefixOf(rawKey), sha256: sha256Of(rawKey) };
    await this.aggregates.execute(`apiKey-${keyId}`, apiKeyDecider, command, context);
    return { keyId, rawKey };
  }

  /**
   * Returns the first id without a key. A try that died left a key that no caller received and that can't be shown again, so it is revoked
   * and the next id is tried.
   */
  private async nextId(context: CommandContext, accountId: string, seed: string): Promise<string> {
    for (let lost = 0; lost < MAX_LOST; lost += 1) {
      const keyId = uuidv5(`apiKey ${lost}`, seed);
      const { state } = await this.aggregates.load(`apiKey-${keyId}`, apiKeyDecider);
      if (state === null) return keyId;
      await this.aggregates.execute(`apiKey-${keyId}`, apiKeyDecider, { type: 'RevokeApiKey', accountId }, context);
    }
    throw new Refusal('invalid_state', 'This request broke off too often. Use a new Idempotency-Key.');
  }
}

/**
 * Revokes a key. It is refused everywhere when this returns, or, if the read model is far behind, as soon as that shows it. Throws
 * `key_not_found`.
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

@CommandHandler(RevokeApiKey)
export class RevokeApiKeyHandler implements ICommandHandler<RevokeApiKey> {
  constructor(private readonly aggregates: Aggregates) {}

  async execute({ context, accountId, keyId }: RevokeApiKey): Promise<void> {
    const command = { type: 'RevokeApiKey' as const, accountId };
    await this.aggregates.execute(`apiKey-${keyId}`, apiKeyDecider, command, context);
  }
}
