import type { Scope } from '../../kernel/context/caller.ts';
import { type ReadRow, type Table, typed } from '../../postgres/database/table.ts';
import type { ProjectionTable } from '../../eventsourcing/projections/projection.ts';

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
