import type { Decider } from '../platform/event-store/event-definition.ts';
import type { Scope } from '../platform/http/caller.ts';
import { Refusal } from '../platform/refusal.ts';
import type { ApiKeyEvent } from './api-keys.events.ts';

export interface ApiKey {
  accountId: string;
  keyId: string;
  revoked: boolean;
}

export type ApiKeyCommand =
  | {
      type: 'IssueApiKey';
      accountId: string;
      keyId: string;
      name: string;
      prefix: string;
      sha256: string;
      scopes: Scope[];
      /** Null: it never ends. */
      expiresInDays: number | null;
    }
  | { type: 'RevokeApiKey'; accountId: string };

const DAY_MS = 86_400_000;

/** One API key, from its issue to its end. Null: never issued. */
export const apiKeyDecider: Decider<ApiKey | null, ApiKeyCommand, ApiKeyEvent> = {
  initialState: () => null,
  decide: (command, key, now) => (command.type === 'IssueApiKey' ? issue(command, key, now) : revoke(command.accountId, key)),
  evolve(key, event) {
    if (event.type === 'ApiKeyIssued') return { accountId: event.data.account_id, keyId: event.data.key_id, revoked: false };
    return key && event.type === 'ApiKeyRevoked' ? { ...key, revoked: true } : key;
  },
};

function issue(command: Extract<ApiKeyCommand, { type: 'IssueApiKey' }>, key: ApiKey | null, now: Date): ApiKeyEvent[] {
  if (key !== null) throw new Refusal('invalid_state', 'The API key was issued already.');
  const { accountId, keyId, name, prefix, sha256, scopes, expiresInDays } = command;
  const expires_at = expiresInDays === null ? null : new Date(now.getTime() + expiresInDays * DAY_MS).toISOString();
  return [{ type: 'ApiKeyIssued', data: { account_id: accountId, key_id: keyId, name, prefix, sha256, scopes, expires_at } }];
}

/** Another account's key is answered as one that never was. */
function revoke(accountId: string, key: ApiKey | null): ApiKeyEvent[] {
  if (key === null || key.accountId !== accountId) throw new Refusal('key_not_found', 'There is no such API key.');
  return key.revoked ? [] : [{ type: 'ApiKeyRevoked', data: { account_id: accountId, key_id: key.keyId } }];
}
