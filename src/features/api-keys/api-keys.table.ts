import type { DatedState } from '../../eventsourcing/aggregates/dated-state.ts';
import type { Scope } from '../../kernel/context/caller.ts';
import { asRead, type ReadRow, type Table, typed, type WrittenRow } from '../../postgres/database/table.ts';
import type { ProjectionTable } from '../../eventsourcing/projections/projection.ts';
import type { ApiKey } from './api-keys.decider.ts';

/** The times at which keys were last used, to the minute; `ApiKeysVerifier` writes them, not a projection. */
export const apiKeyUsesTable = {
  key: 'key_id',
  columns: { key_id: 'text not null', last_used_at: 'timestamptz not null' },
} as const satisfies Table;

export const apiKeysTable = {
  key: 'key_id',
  columns: {
    key_id: 'text collate "C" not null',
    account_id: 'text collate "C" not null',
    name: 'text not null',
    prefix: 'text not null',
    /** The SHA-256 of the key, in hex. */
    sha256: 'text collate "C" not null',
    scopes: typed<Scope[]>('json not null'),
    expires_at: 'timestamptz(3)',
    revoked_at: 'timestamptz(3)',
    /** The time at which the expiry was recorded. */
    expired_at: 'timestamptz(3)',
    created_at: 'timestamptz(3) not null',
  },
  indexes: {
    by_hash: '(sha256)',
    by_account: '(account_id, created_at desc, key_id desc)',
    ending: '(expires_at) where expires_at is not null and revoked_at is null and expired_at is null',
  },
} as const satisfies ProjectionTable;

/** One API key with its last use. */
export type ApiKeyRow = ReadRow<typeof apiKeysTable> & { use: ReadRow<typeof apiKeyUsesTable> | null };

/** Returns the row of a key that was just issued. The projection writes it, and the request for the key is answered with it. */
export function issuedKeyRow(
  { keyId, accountId, name, prefix, sha256, scopes, expiresAt }: ApiKey,
  issuedAt: string,
): WrittenRow<typeof apiKeysTable> {
  const key = { key_id: keyId, account_id: accountId, name, prefix, sha256, scopes, expires_at: expiresAt };
  return { ...key, revoked_at: null, expired_at: null, created_at: issuedAt };
}

/** Returns a key that was just issued as a read of its row would show it. */
export function readIssuedKey({ state, createdAt }: DatedState<ApiKey>): ApiKeyRow {
  return { ...asRead(apiKeysTable, issuedKeyRow(state, createdAt)), use: null };
}
