import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';

import { Database } from '../../postgres/database/database.ts';
import { entityOf, newestFirst } from '../../postgres/database/entities.ts';
import { evolved } from '../../eventsourcing/aggregates/dated-state.ts';
import { idOf, type StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import { type Projection, tableOf } from '../../eventsourcing/projections/projection.ts';
import { changedSubscription, createdSubscription } from './subscriptions.decider.ts';
import type { SubscriptionEvent } from './subscriptions.events.ts';
import { type SubscriptionSummary, ListAllSubscriptions, ListSubscriptions } from './subscriptions.queries.ts';
import { subscriptionOf, type SubscriptionRow, subscriptionRow, subscriptionsTable } from './subscriptions.table.ts';

/** Every subscription that was not deleted. */
export const subscriptionsProjection: Projection<typeof subscriptionsTable> = {
  name: 'subscriptions',
  version: 1,
  filter: { eventClass: 'core', categories: ['subscription'] },
  table: subscriptionsTable,
  keys: (event) => [idOf(event.stream)],
  project(stored: StoredEvent, rows) {
    const event = stored as StoredEvent & SubscriptionEvent;
    const subscription_id = idOf(stored.stream);
    if (event.type === 'SubscriptionCreated')
      return rows.set(
        subscription_id,
        subscriptionRow({ state: createdSubscription(event.data), createdAt: stored.at, changedAt: stored.at }),
      );
    const row = rows.get(subscription_id);
    if (row === undefined) return;
    switch (event.type) {
      case 'SubscriptionChanged':
      case 'SubscriptionSwitchedOff':
        return rows.set(subscription_id, subscriptionRow(evolved(changedSubscription, subscriptionOf(row), event)));
      case 'SubscriptionDeleted':
        return rows.delete(subscription_id);
      case 'EventDeadLettered':
      case 'EventRedeliveryRequested':
        return;
      default:
        event satisfies never;
    }
  },
};

const SUBSCRIPTIONS = tableOf(subscriptionsProjection);
const subscriptionRows = entityOf(SUBSCRIPTIONS, subscriptionsTable);

@QueryHandler(ListSubscriptions)
export class ListSubscriptionsHandler implements IQueryHandler<ListSubscriptions> {
  constructor(private readonly database: Database) {}

  execute({ accountId, ...page }: ListSubscriptions): Promise<SubscriptionRow[]> {
    const query = this.database.dataSource
      .getRepository(subscriptionRows)
      .createQueryBuilder('subscription')
      .where('subscription.account_id = :accountId', { accountId });
    return newestFirst(query, ['subscription.created_at', 'subscription.subscription_id'], page).getMany();
  }
}

@QueryHandler(ListAllSubscriptions)
export class ListAllSubscriptionsHandler implements IQueryHandler<ListAllSubscriptions> {
  constructor(private readonly database: Database) {}

  execute(): Promise<SubscriptionSummary[]> {
    return this.database.query<SubscriptionSummary & Record<string, unknown>>(
      `select subscription_id as "subscriptionId", account_id as "accountId", active from ${SUBSCRIPTIONS}`,
    );
  }
}
