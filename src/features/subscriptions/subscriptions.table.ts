import type { Sealed } from '../../crypto/keyring.ts';
import { type ReadRow, typed } from '../../postgres/database/table.ts';
import type { ProjectionTable } from '../../eventsourcing/projections/projection.ts';

export const subscriptionsTable = {
  key: 'subscription_id',
  columns: {
    subscription_id: 'text collate "C" not null',
    account_id: 'text collate "C" not null',
    host: 'text not null',
    url: typed<Sealed>('json not null'),
    /** Null stands for all types. */
    types: 'text[]',
    agent_ids: 'text[]',
    active: 'boolean not null',
    /** The time at which it was switched off because every delivery failed; null if it is not so now. */
    switched_off_at: 'timestamptz(3)',
    created_at: 'timestamptz(3) not null',
    updated_at: 'timestamptz(3) not null',
  },
  indexes: { by_account: '(account_id, created_at desc, subscription_id desc)' },
} as const satisfies ProjectionTable;

export type SubscriptionRow = ReadRow<typeof subscriptionsTable>;
