import type { Decider } from '../../eventsourcing/event-store/event-definition.ts';
import type { Scope } from '../../kernel/context/caller.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import type { ApiKeyEvent } from './api-keys.events.ts';

export interface ApiKey {
  accountId: string;
  keyId: string;
  name: string;
  prefix: string;
  sha256: string;
  scopes: Scope[];
  /** The time at which the key expires, ISO 8601; null if it never does. */
  expiresAt: string | null;
  revoked: boolean;
  /** The value is true once the expiry is recorded. */
  expired: boolean;
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
      /** The lifetime of the key in days; null if it never expires. */
      expiresInDays: number | null;
    }
  | { type: 'RevokeApiKey'; accountId: string }
  | { type: 'RecordExpiry' };

const DAY_MS = 86_400_000;

/** The rules of one API key, from its issue to its end. The state is null before it is issued. */
export const apiKeyDecider: Decider<ApiKey | null, ApiKeyCommand, ApiKeyEvent> = {
  initialState: () => null,
  decide(command, key, now) {
    if (command.type === 'IssueApiKey') return issue(command, key, now);
    return command.type === 'RevokeApiKey' ? revoke(command.accountId, key) : recordExpiry(key, now);
  },
  evolve(key, event) {
    if (event.type === 'ApiKeyIssued') return issuedKey(event.data);
    if (key === null) return key;
    switch (event.type) {
      case 'ApiKeyRevoked':
        return { ...key, revoked: true };
      case 'ApiKeyExpired':
        return { ...key, expired: true };
      default:
        event satisfies never;
        return key;
    }
  },
};

/** Returns the key as it is issued. */
export function issuedKey({ account_id, key_id, expires_at, ...given }: Extract<ApiKeyEvent, { type: 'ApiKeyIssued' }>['data']): ApiKey {
  const { name, prefix, sha256, scopes } = given;
  return { accountId: account_id, keyId: key_id, name, prefix, sha256, scopes, expiresAt: expires_at, revoked: false, expired: false };
}

function issue(command: Extract<ApiKeyCommand, { type: 'IssueApiKey' }>, key: ApiKey | null, now: Date): ApiKeyEvent[] {
  if (key !== null) throw new ProblemError('invalid_state', 'The API key was issued already.');
  const { accountId, keyId, name, prefix, sha256, scopes, expiresInDays } = command;
  const expires_at = expiresInDays === null ? null : new Date(now.getTime() + expiresInDays * DAY_MS).toISOString();
  return [{ type: 'ApiKeyIssued', data: { account_id: accountId, key_id: keyId, name, prefix, sha256, scopes, expires_at } }];
}

/** Revokes the key. Another account's key is answered like an unknown one. */
function revoke(accountId: string, key: ApiKey | null): ApiKeyEvent[] {
  if (key === null || key.accountId !== accountId) throw new ProblemError('key_not_found', 'There is no such API key.');
  return key.revoked ? [] : [{ type: 'ApiKeyRevoked', data: { account_id: accountId, key_id: key.keyId } }];
}

/** Returns the time at which the key expires; null if it never does, is revoked, or its expiry is recorded already. */
export function endsAt(key: ApiKey | null): Date | null {
  return key === null || key.expiresAt === null || key.revoked || key.expired ? null : new Date(key.expiresAt);
}

function recordExpiry(key: ApiKey | null, now: Date): ApiKeyEvent[] {
  const end = endsAt(key);
  return key === null || end === null || end > now
    ? []
    : [{ type: 'ApiKeyExpired', data: { account_id: key.accountId, key_id: key.keyId } }];
}
