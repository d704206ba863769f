import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';

import { Database } from '../../postgres/database/database.ts';
import { entityOf, newestFirst } from '../../postgres/database/entities.ts';
import { Refusal } from '../../kernel/errors/refusal.ts';
import { idOf, type StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import { type Projection, tableOf } from '../../eventsourcing/projections/projection.ts';
import { LatestRows } from '../../eventsourcing/projections/tables/latest-rows.ts';
import { subscriptionStream } from './subscriptions.decider.ts';
import type { SubscriptionEvent } from './subscriptions.events.ts';
import { GetWrittenSubscription, type KnownSubscription, ListAllSubscriptions, ListSubscriptions } from './subscriptions.queries.ts';
import { type SubscriptionRow, subscriptionsTable } from './subscriptions.table.ts';

/** Every subscription that was not deleted. */
export const subscriptionsProjection: Projection<typeof subscriptionsTable> = {
  name: 'subscriptions',
  version: 1,
  filter: { eventClass: 'core', categories: ['subscription'] },
  table: subscriptionsTable,
  keys: (event) => [idOf(event.stream)],
  project(stored: StoredEvent, rows) {
    const event = stored as unknown as SubscriptionEvent;
    const subscription_id = idOf(stored.stream);
    const times = { created_at: stored.at, updated_at: stored.at };
    if (event.type === 'SubscriptionCreated') {
      const { account_id, host, url, types, agent_ids } = event.data;
      rows.set(subscription_id, {
        subscription_id,
        account_id,
        host,
        url,
        types,
        agent_ids,
        active: true,
        switched_off_at: null,
        ...times,
      });
      return;
    }
    const row = rows.get(subscription_id);
    if (row === undefined) return;
    switch (event.type) {
      case 'SubscriptionChanged': {
        const changed = { ...row, ...event.data.changes, updated_at: stored.at };
        return rows.set(subscription_id, { ...changed, switched_off_at: changed.active ? null : row.switched_off_at });
      }
      case 'SubscriptionSwitchedOff':
        return rows.set(subscription_id, { ...row, active: false, switched_off_at: stored.at, updated_at: stored.at });
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

@QueryHandler(GetWrittenSubscription)
export class GetWrittenSubscriptionHandler implements IQueryHandler<GetWrittenSubscription> {
  constructor(private readonly latest: LatestRows) {}

  async execute({ accountId, subscriptionId }: GetWrittenSubscription): Promise<SubscriptionRow> {
    const { row } = await this.latest.find(subscriptionsProjection, subscriptionStream(subscriptionId));
    if (row === undefined || row.account_id !== accountId) throw new Refusal('not_found', 'There is no such subscription.');
    return row;
  }
}

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

  execute(): Promise<KnownSubscription[]> {
    return this.database.query<KnownSubscription & Record<string, unknown>>(
      `select subscription_id as "subscriptionId", account_id as "accountId", active from ${SUBSCRIPTIONS}`,
    );
  }
}
