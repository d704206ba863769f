import type { DatedState } from '../../eventsourcing/aggregates/dated-state.ts';
import { asRead, type ReadRow, type Table, typed, type WrittenRow } from '../../postgres/database/table.ts';
import type { ProjectionTable } from '../../eventsourcing/projections/projection.ts';
import type { Account, Plan } from './aggregate/accounts.decider.ts';

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

export type WrittenAccount = WrittenRow<typeof accountsTable>;

/** Returns the columns of the account's plan. */
export function planColumns(plan: Plan | null): Pick<WrittenAccount, 'plan_name' | 'plan_seats' | 'plan_computers' | 'payment_method'> {
  const { name = null, seats = null, computers = null, paymentMethod = false } = plan ?? {};
  return { plan_name: name, plan_seats: seats, plan_computers: computers, payment_method: paymentMethod };
}

/** Returns the row of an account in this state. The projection writes it when an account is opened, and a write is answered with it. */
export function accountRow(account_id: string, { name, role, plan, seats, computers }: Account, created_at: string): WrittenAccount {
  const used = { seats_used: seats.size, computers_used: computers.size };
  return { account_id, name, role, ...planColumns(plan), ...used, created_at };
}

/** Returns the account in this state as a read of its row would show it, with the address of its holder. */
export function readAccount(
  accountId: string,
  account: Pick<DatedState<Account>, 'state' | 'createdAt'>,
  email: string | null,
): AccountRow {
  const credential = email === null ? null : { account_id: accountId, email };
  return { ...asRead(accountsTable, accountRow(accountId, account.state, account.createdAt)), credential };
}
