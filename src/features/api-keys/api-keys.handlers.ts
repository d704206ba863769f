import { CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import { v5 as uuidv5, v7 as uuidv7 } from 'uuid';

import { Aggregates } from '../../eventsourcing/aggregates/aggregates.ts';
import type { CommandContext } from '../../kernel/context/command-context.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { apiKeyDecider } from './api-keys.decider.ts';
import { newRawKey, prefixOf, sha256Of } from './raw-key.ts';
import { IssueApiKey, type IssuedKey, RevokeApiKey } from './api-keys.commands.ts';

/** The most attempts of one request that may crash after their append. Each leaves a key that no caller received. */
const INTERRUPTED_ATTEMPTS_MAX = 20;

@CommandHandler(IssueApiKey)
export class IssueApiKeyHandler implements ICommandHandler<IssueApiKey> {
  constructor(private readonly aggregates: Aggregates) {}

  async execute({ context, accountId, key, seed }: IssueApiKey): Promise<IssuedKey> {
    const keyId = seed === null ? uuidv7() : await this.nextId(context, accountId, seed);
    const rawKey = newRawKey();
    const command = { type: 'IssueApiKey' as const, accountId, keyId, ...key, prefix: prefixOf(rawKey), sha256: sha256Of(rawKey) };
    const { state, ...dates } = await this.aggregates.execute(`apiKey-${keyId}`, apiKeyDecider, command, context);
    if (state === null) throw new Error(`the API key ${keyId} is not there after it was issued`);
    return { key: { ...dates, state }, rawKey };
  }

  /**
   * Returns the first unused id. A crashed attempt left a key that no caller received and that can't be shown again, so it is revoked and
   * the next id is tried.
   */
  private async nextId(context: CommandContext, accountId: string, seed: string): Promise<string> {
    for (let lost = 0; lost < INTERRUPTED_ATTEMPTS_MAX; lost += 1) {
      const keyId = uuidv5(`apiKey ${lost}`, seed);
      const { state } = await this.aggregates.load(`apiKey-${keyId}`, apiKeyDecider);
      if (state === null) return keyId;
      await this.aggregates.execute(`apiKey-${keyId}`, apiKeyDecider, { type: 'RevokeApiKey', accountId }, context);
    }
    throw new ProblemError('invalid_state', 'This request broke off too often. Use a new Idempotency-Key.');
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
