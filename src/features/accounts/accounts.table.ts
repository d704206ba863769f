import { type ReadRow, type Table, typed } from '../../postgres/database/table.ts';
import type { ProjectionTable } from '../../eventsourcing/projections/projection.ts';

/** The addresses with which the holders of accounts sign in; `Credentials` writes them, not a projection. */
export const accountCredentialsTable = {
  key: 'account_id',
  columns: { account_id: 'text not null', email: 'text not null' },
} as const satisfies Table;

export const accountsTable = {
  key: 'account_id',
  columns: {
    account_id: 'text collate "C" not null',
    name: 'text not null',
    role: typed<'admin' | 'member'>('text not null'),
    plan_name: 'text',
    plan_seats: 'integer',
    plan_computers: 'integer',
    payment_method: 'boolean not null',
    seats_used: 'integer not null',
    computers_used: 'integer not null',
    created_at: 'timestamptz(3) not null',
  },
  indexes: { by_age: '(created_at desc, account_id desc)' },
} as const satisfies ProjectionTable;

/** One account with the address of its holder. */
export type AccountRow = ReadRow<typeof accountsTable> & { credential: ReadRow<typeof accountCredentialsTable> | null };
