import { Injectable } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';

import { FindOutrun, ListAudit } from '../history/index.ts';
import { categoryOf, EventStore, type Position, START } from '../../eventsourcing/event-store/event-store.ts';
import { LogFollower } from '../../eventsourcing/log/log-follower.ts';
import { ReadModels } from '../../eventsourcing/projections/projection.ts';
import type { SagaKey } from '../../eventsourcing/sagas/saga.ts';
import { EventDeliveries, type SubscriptionCursor } from './delivery/event-deliveries.ts';
import { type Subscription, subscriptionStream, wants } from './subscriptions.decider.ts';
import type { SubscriptionEvent } from './subscriptions.events.ts';
import { ListAllSubscriptions } from './subscriptions.queries.ts';

/**
 * The most events that wait for one subscription: those that can be sent, and those together with the ones that wait behind a failed event
 * of their agent. The position does not advance beyond these bounds.
 */
const READY_MAX = 500;
const PENDING_MAX = 5_000;
/** The number of events of an account that are read in one step. */
const PAGE = 200;
/** After this many steps, the pass continues with its other work. */
const STEPS_MAX = 20;

/** The result of enqueuing events: up to the end of the log, a part of them, or up to the bound on waiting events. */
export type IntakeProgress = 'all' | 'some' | 'full';

const ALL = { subjectId: null, types: null, actor: null, since: null, until: null, newestFirst: false };

/** Enqueues the events that subscriptions want, starting at the position in the log up to which each subscription was served. */
@Injectable()
export class EventIntake {
  constructor(
    private readonly store: EventStore,
    private readonly deliveries: EventDeliveries,
    private readonly queries: QueryBus,
    private readonly readModels: ReadModels,
    private readonly follower: LogFollower,
  ) {}

  /** Applies the orders on the subscription's stream up to the revision: redeliveries, and switching it on again. */
  async applyOrders({ subscriptionId, accountId }: Subscription, revision: number): Promise<void> {
    const cursor = await this.cursorOf(subscriptionId, accountId);
    if (cursor.revision >= revision) return;
    const again: string[] = [];
    let switchedOn = false;
    for await (const stored of this.store.readStream(subscriptionStream(subscriptionId), { from: cursor.revision + 1 })) {
      if (stored.revision > revision) break;
      const event = stored as unknown as SubscriptionEvent;
      if (event.type === 'EventRedeliveryRequested') again.push(event.data.event_id);
      if (event.type === 'SubscriptionChanged') switchedOn ||= event.data.changes.active === true;
    }
    await this.deliveries.applyOrders(subscriptionId, { from: cursor.revision, upTo: revision, again, switchedOn });
  }

  /** Stores the next events that the subscription wants as pending deliveries. */
  async enqueueWanted(subscription: Subscription): Promise<IntakeProgress> {
    const { subscriptionId, accountId } = subscription;
    await this.readModels.waitFor('audit_entries', this.follower.position);
    let { position } = await this.cursorOf(subscriptionId, accountId);
    const { pending, ready } = await this.deliveries.countPending(subscriptionId);
    let room = Math.min(READY_MAX - ready, PENDING_MAX - pending);
    for (let step = 0; step < STEPS_MAX && room > 0; step += 1) {
      const limit = Math.min(PAGE, room);
      const { items, next } = await this.queries.execute(new ListAudit({ ...ALL, accountId }, position, limit));
      const last = items.at(-1);
      if (last === undefined) return 'all';
      const wanted = items
        .map(({ event_id, agent_id, type, stream, position: at }) => ({ event_id, agent_id, type, stream, position: at }))
        // The events of subscriptions themselves are not sent, since every dead-lettered event would cause another one.
        .filter(({ type, agent_id: agentId, stream }) => categoryOf(stream) !== 'subscription' && wants(subscription, { type, agentId }));
      await this.deliveries.enqueue(subscriptionId, wanted, last.position);
      position = last.position;
      room -= wanted.length;
      if (next === null) return 'all';
    }
    return room > 0 ? 'some' : 'full';
  }

  /** Deletes all rows of a deleted subscription. */
  deleteAll(subscriptionId: string): Promise<void> {
    return this.deliveries.deleteAll(subscriptionId);
  }

  /** Returns the subscriptions with events to enqueue or deliveries that are due, and deleted ones whose rows still exist. */
  async findUnfinished(): Promise<SagaKey[]> {
    const subscriptions = await this.queries.execute(new ListAllSubscriptions());
    const cursors = new Map((await this.deliveries.cursors()).map((cursor) => [cursor.subscriptionId, cursor]));
    const found: SagaKey[] = [];
    const upToDate: SubscriptionCursor[] = [];
    for (const { subscriptionId, accountId, active } of subscriptions) {
      const cursor = cursors.get(subscriptionId);
      cursors.delete(subscriptionId);
      if (!active) continue;
      if (cursor === undefined || cursor.isDue) found.push({ key: subscriptionId, account: accountId });
      else upToDate.push(cursor);
    }
    const outrun = await this.queries.execute(new FindOutrun(upToDate));
    return [
      ...found,
      ...[...outrun, ...cursors.values()].map(({ subscriptionId, accountId }) => ({ key: subscriptionId, account: accountId })),
    ];
  }

  private cursorOf(subscriptionId: string, accountId: string) {
    return this.deliveries.cursor(subscriptionId, accountId, () => this.createdAt(subscriptionId));
  }

  /** Returns the position of the event that created the subscription, which gets the events after that. */
  private async createdAt(subscriptionId: string): Promise<Position> {
    for await (const { position } of this.store.readStream(subscriptionStream(subscriptionId), { limit: 1 })) return position;
    return START;
  }
}
