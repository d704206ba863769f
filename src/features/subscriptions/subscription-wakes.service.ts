/*
 * Wakes the saga of an account's subscriptions when an event of the account is appended.
 *
 * It owns the map of accounts to their active subscriptions, in the memory of each process. It does not own the deliveries or their cursors
 * (`subscriptions.saga.ts`), which read the log themselves.
 *
 * Invariants:
 * W1. An event of an account without active subscriptions costs one lookup in memory, and no statement.
 * W2. The map follows the events of subscriptions in the order of the log. After a gap in the followed log, it is completed from the read
 *     model, which is read only when it has reached the follower's position.
 * W3. A missed wake delays deliveries and loses none: the saga's resync finds the subscription. So an entry too many or too few is
 *     harmless.
 */

import { Injectable, type OnApplicationBootstrap, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';

import { retry } from '../../kernel/async/retry.ts';
import { categoryOf, idOf, type StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import { LogFollower } from '../../eventsourcing/log/log-follower.ts';
import { ReadModels } from '../../eventsourcing/projections/projection.ts';
import { Sagas } from '../../eventsourcing/sagas/saga.ts';
import type { SubscriptionEvent } from './subscriptions.events.ts';
import { subscriptionsProjection } from './subscriptions.projection.ts';
import { ListAllSubscriptions } from './subscriptions.queries.ts';

/** The delays before the subscriptions are listed again if their table is not filled yet or the database does not answer. */
const LIST_RETRY = { firstMs: 500, lastMs: 30_000, ref: false };

/**
 * Wakes the saga for the subscriptions of an account when an event of the account is appended. It keeps in memory which accounts have
 * subscriptions, so that events of other accounts cost nothing. It may miss some, which the saga's resync finds.
 */
@Injectable()
export class SubscriptionWakes implements OnModuleInit, OnApplicationBootstrap, OnModuleDestroy {
  private readonly byAccount = new Map<string, Set<string>>();
  private readonly stopping = new AbortController();
  private stopListening: () => void = () => undefined;

  constructor(
    private readonly follower: LogFollower,
    private readonly sagas: Sagas,
    private readonly queries: QueryBus,
    private readonly readModels: ReadModels,
  ) {}

  onModuleInit(): void {
    this.stopListening = this.follower.listen({
      onEvents: (events) => this.onEvents(events),
      onGap: () => this.load(), // W2
    });
  }

  onApplicationBootstrap(): void {
    this.load();
  }

  onModuleDestroy(): void {
    this.stopping.abort();
    this.stopListening();
  }

  /** Starts listing the subscriptions, and repeats it until it succeeds. */
  private load(): void {
    retry(() => this.list(), { ...LIST_RETRY, signal: this.stopping.signal }).catch(() => undefined);
  }

  private async list(): Promise<void> {
    await this.readModels.waitUntilFilled(subscriptionsProjection.name);
    await this.readModels.waitFor(subscriptionsProjection.name, this.follower.position); // W2
    const subscriptions = await this.queries.execute(new ListAllSubscriptions());
    for (const { accountId, subscriptionId, active } of subscriptions) if (active) this.add(accountId, subscriptionId);
  }

  private onEvents(events: readonly StoredEvent[]): void {
    const accounts = new Set<string>();
    for (const event of events) {
      if (categoryOf(event.stream) === 'subscription') this.onSubscriptionEvent(event);
      else if (event.metadata.account_id !== null && this.byAccount.has(event.metadata.account_id)) accounts.add(event.metadata.account_id); // W1
    }
    for (const account of accounts) for (const id of this.byAccount.get(account) ?? []) this.sagas.wake('subscriptions', id, account);
  }

  private onSubscriptionEvent(stored: StoredEvent): void {
    const event = stored as unknown as SubscriptionEvent;
    const { account_id: accountId } = event.data;
    const id = idOf(stored.stream);
    const isOn = event.type === 'SubscriptionCreated' || (event.type === 'SubscriptionChanged' && event.data.changes.active === true);
    const isOff = event.type === 'SubscriptionDeleted' || event.type === 'SubscriptionSwitchedOff';
    if (isOn) this.add(accountId, id);
    else if (isOff || (event.type === 'SubscriptionChanged' && event.data.changes.active === false)) this.remove(accountId, id);
  }

  private add(accountId: string, subscriptionId: string): void {
    const known = this.byAccount.get(accountId);
    if (known === undefined) this.byAccount.set(accountId, new Set([subscriptionId]));
    else known.add(subscriptionId);
  }

  private remove(accountId: string, subscriptionId: string): void {
    const known = this.byAccount.get(accountId);
    known?.delete(subscriptionId);
    if (known?.size === 0) this.byAccount.delete(accountId);
  }
}
