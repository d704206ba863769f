import type { Sealed } from '../../crypto/keyring.ts';
import { asRead, type ReadRow, typed, type WrittenRow } from '../../postgres/database/table.ts';
import type { DatedState } from '../../eventsourcing/aggregates/dated-state.ts';
import type { ProjectionTable } from '../../eventsourcing/projections/projection.ts';
import type { ShownSubscription } from './subscriptions.decider.ts';

export const subscriptionsTable = {
  key: 'subscription_id',
  columns: {
    subscription_id: 'text collate "C" not null',
    account_id: 'text collate "C" not null',
    host: 'text not null',
    url: typed<Sealed>('json not null'),
    /** Null means all types. */
    types: 'text[]',
    agent_ids: 'text[]',
    active: 'boolean not null',
    /** The time at which it was switched off because every delivery failed; null if it is not switched off. */
    switched_off_at: 'timestamptz(3)',
    created_at: 'timestamptz(3) not null',
    updated_at: 'timestamptz(3) not null',
  },
  indexes: { by_account: '(account_id, created_at desc, subscription_id desc)' },
} as const satisfies ProjectionTable;

export type SubscriptionRow = ReadRow<typeof subscriptionsTable>;

type WrittenSubscription = WrittenRow<typeof subscriptionsTable>;

/** Returns the row of a subscription in this state. The projection writes it, and a write is answered with it. */
export function subscriptionRow({ state, createdAt, changedAt }: DatedState<ShownSubscription>): WrittenSubscription {
  const { subscriptionId: subscription_id, accountId: account_id, host, url, types, agentIds: agent_ids, active } = state;
  const target = { subscription_id, account_id, host, url, types, agent_ids, active };
  return { ...target, switched_off_at: state.switchedOffAt, created_at: createdAt, updated_at: changedAt };
}

/** Returns what the row shows of the subscription: `subscriptionRow` makes the same row of it. */
export function subscriptionOf(row: WrittenSubscription): DatedState<ShownSubscription> {
  const { subscription_id: subscriptionId, account_id: accountId, host, url, types, agent_ids: agentIds, active } = row;
  const state = { subscriptionId, accountId, host, url, types, agentIds, active, switchedOffAt: row.switched_off_at };
  return { state, createdAt: row.created_at, changedAt: row.updated_at };
}

/** Returns the subscription in this state as a read of its row would show it. */
export function readSubscription(subscription: DatedState<ShownSubscription>): SubscriptionRow {
  return asRead(subscriptionsTable, subscriptionRow(subscription));
}
