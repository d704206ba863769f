/*
 * The stored state of event subscriptions: a cursor for each subscription, and a row for each event that it wants.
 *
 * It owns the tables `subscription_cursors` and `event_deliveries`. They are the memory of a consumer of the log, not a read model: they
 * can't be rebuilt from events. It does not own which events are wanted (`EventIntake`) or how they are sent (`EventAttempts`,
 * `EventSender`).
 *
 * Invariants:
 * S1. The cursor moves in the same statement that inserts the wanted events before it, so that no event is skipped or inserted twice.
 * S2. The events of one agent are delivered in the order of the log: only the first pending event of each agent is due.
 * S3. An attempt is recorded only if no other process has recorded one since the row was read (`attempts` is compared).
 * S4. Orders of the subscription's stream (redeliveries, switching on) are applied once: the cursor's revision moves in the same
 *     transaction.
 * S5. A subscription has at most FINISHED_DELIVERIES_MAX rows of finished deliveries; older ones are deleted. Pending ones are bounded by `EventIntake`.
 */

import { Injectable } from '@nestjs/common';

import { Database } from '../../../postgres/database/database.ts';
import type { Position } from '../../../eventsourcing/event-store/event-store.ts';

export const deliveryStatuses = ['pending', 'delivered', 'dead_letter'] as const;
export type DeliveryStatus = (typeof deliveryStatuses)[number];

/** One event that a subscription wants, and the state of its delivery. */
export interface EventDelivery {
  event_id: string;
  position: Position;
  agent_id: string | null;
  type: string;
  status: DeliveryStatus;
  /** The number of redeliveries that were asked for. */
  round: number;
  /** The number of attempts in this round. */
  attempts: number;
  response_status: number | null;
  /** The time of the last attempt. */
  at: Date | null;
  next_attempt_at: Date | null;
}

/** The positions up to which a subscription was served. */
export interface Cursor {
  /** The position up to which the log was searched for events that the subscription wants. */
  position: Position;
  /** The revision of the subscription's stream up to which its orders were carried out. */
  revision: number;
  /** The time since which every delivery has failed; null if the last one succeeded. */
  failing_since: Date | null;
}

/** The cursor of one subscription among all. */
export interface SubscriptionCursor extends Pick<Cursor, 'position'> {
  subscriptionId: string;
  accountId: string;
  /** The value is true if a delivery is due now. */
  isDue: boolean;
}

/** An event of the log that a subscription wants. */
export type WantedEvent = Pick<EventDelivery, 'event_id' | 'position' | 'agent_id' | 'type'>;

export interface Attempt {
  status: DeliveryStatus;
  responseStatus: number | null;
  at: Date;
  nextAttemptAt: Date | null;
}

/** The orders on a subscription's stream after the revision `from`, up to `upTo`. */
export interface Orders {
  from: number;
  upTo: number;
  /** The ids of events that are to be sent again. */
  again: string[];
  switchedOn: boolean;
}

/** The number of deliveries of a subscription that are kept after their end. */
const FINISHED_DELIVERIES_MAX = 5_000;
const COLUMNS = 'event_id, position, agent_id, type, status, round, attempts, response_status, at, next_attempt_at';

/** S1: one statement inserts the events and moves the cursor. */
const ENQUEUE = `
  with taken as (
    insert into event_deliveries (subscription_id, event_id, position, agent_id, type, next_attempt_at)
    select $1, event_id, position, agent_id, type, now()
    from unnest($2::text[], $3::text[], $4::text[], $5::text[]) as wanted (event_id, position, agent_id, type)
    on conflict do nothing)
  update subscription_cursors set position = $6 where subscription_id = $1 and position < $6`;

/** S5: deletes the oldest finished deliveries beyond the bound. */
const DELETE_OLD = `
  delete from event_deliveries where subscription_id = $1 and status <> 'pending' and position < (
    select position from event_deliveries where subscription_id = $1 order by position desc offset ${FINISHED_DELIVERIES_MAX} limit 1)`;

/** S2: selects the first pending event of each agent. The events that concern no agent are one group. */
const DUE = `
  select * from (
    select distinct on (coalesce(agent_id, '')) ${COLUMNS} from event_deliveries
    where subscription_id = $1 and status = 'pending' order by coalesce(agent_id, ''), position) heads`;

const COUNT_PENDING = `
  select count(*) as pending, count(*) filter (where not held) as ready from (
    select bool_or(attempts > 0) over (partition by coalesce(agent_id, '')) as held from event_deliveries
    where subscription_id = $1 and status = 'pending') lines`;

/** S3: changes nothing if another process has recorded an attempt since. */
const RECORD = `
  update event_deliveries set status = $4, attempts = attempts + 1, response_status = $5, at = $6, next_attempt_at = $7
  where subscription_id = $1 and event_id = $2 and attempts = $3 and status = 'pending'`;

/** Stores the deliveries of subscriptions and the position up to which each subscription was served. */
@Injectable()
export class EventDeliveries {
  constructor(private readonly database: Database) {}

  /** Returns the subscription's cursor; a new one begins after the position. */
  async cursor(subscriptionId: string, accountId: string, after: () => Promise<Position>): Promise<Cursor> {
    const find = () =>
      this.database.query<Cursor>('select position, revision, failing_since from subscription_cursors where subscription_id = $1', [
        subscriptionId,
      ]);
    const [found] = await find();
    if (found !== undefined) return found;
    await this.database.query(
      'insert into subscription_cursors (subscription_id, account_id, position) values ($1, $2, $3) on conflict do nothing',
      [subscriptionId, accountId, await after()],
    );
    const [made] = await find();
    if (made === undefined) throw new Error(`the subscription ${subscriptionId} has no cursor after it was inserted`);
    return made;
  }

  /** Stores the wanted events as pending, and that the log was searched up to the position. Repeating it changes nothing. */
  async enqueue(subscriptionId: string, wanted: WantedEvent[], upTo: Position): Promise<void> {
    const column = (name: keyof WantedEvent) => wanted.map((event) => event[name]);
    await this.database.query(ENQUEUE, [subscriptionId, column('event_id'), column('position'), column('agent_id'), column('type'), upTo]);
    if (wanted.length > 0) await this.database.query(DELETE_OLD, [subscriptionId]);
  }

  /** Carries out orders of the subscription's stream, unless they were carried out before. */
  async applyOrders(subscriptionId: string, { from, upTo, again, switchedOn }: Orders): Promise<void> {
    await this.database.transaction(async (client) => {
      // S4
      const moved = await client.query(
        `update subscription_cursors set revision = $3, failing_since = case when $4 then null else failing_since end
         where subscription_id = $1 and revision = $2`,
        [subscriptionId, from, upTo, switchedOn],
      );
      if (moved.rowCount !== 1 || again.length === 0) return;
      await client.query(
        `update event_deliveries set status = 'pending', round = round + 1, attempts = 0, next_attempt_at = now()
         where subscription_id = $1 and event_id = any($2::text[]) and status <> 'pending'`,
        [subscriptionId, again],
      );
    });
  }

  /** Returns the number of pending deliveries, and of those that do not wait behind a failed delivery of the same agent. */
  async countPending(subscriptionId: string): Promise<{ pending: number; ready: number }> {
    const [row] = await this.database.query<{ pending: string; ready: string }>(COUNT_PENDING, [subscriptionId]);
    return { pending: Number(row?.pending), ready: Number(row?.ready) };
  }

  /** Returns the next pending event of each agent, ordered by the time at which it is due. */
  async heads(subscriptionId: string): Promise<EventDelivery[]> {
    return this.database.query<EventDelivery & Record<string, unknown>>(`${DUE} order by next_attempt_at, position`, [subscriptionId]);
  }

  /** Records an attempt, unless another process has recorded one since. Returns the time since which every delivery has failed. */
  async record(subscriptionId: string, { event_id, attempts }: EventDelivery, attempt: Attempt): Promise<Date | null> {
    const { status, responseStatus, at, nextAttemptAt } = attempt;
    await this.database.query(RECORD, [subscriptionId, event_id, attempts, status, responseStatus, at, nextAttemptAt]);
    const [cursor] = await this.database.query<Pick<Cursor, 'failing_since'>>(
      `update subscription_cursors set failing_since = case when $2 then null else coalesce(failing_since, $3) end
       where subscription_id = $1 returning failing_since`,
      [subscriptionId, status === 'delivered', at],
    );
    return cursor?.failing_since ?? null;
  }

  /** Lists the deliveries of a subscription, newest first. */
  list(subscriptionId: string, status: DeliveryStatus | null, limit: number, before: string | null): Promise<EventDelivery[]> {
    return this.database.query<EventDelivery & Record<string, unknown>>(
      `select ${COLUMNS} from event_deliveries
       where subscription_id = $1 and ($2::text is null or status = $2) and ($4::text is null or position < $4)
       order by position desc limit $3`,
      [subscriptionId, status, limit, before],
    );
  }

  async find(subscriptionId: string, eventId: string): Promise<EventDelivery | null> {
    const [row] = await this.database.query<EventDelivery & Record<string, unknown>>(
      `select ${COLUMNS} from event_deliveries where subscription_id = $1 and event_id = $2`,
      [subscriptionId, eventId],
    );
    return row ?? null;
  }

  /** Deletes all rows of a deleted subscription. */
  async deleteAll(subscriptionId: string): Promise<void> {
    await this.database.query('delete from event_deliveries where subscription_id = $1', [subscriptionId]);
    await this.database.query('delete from subscription_cursors where subscription_id = $1', [subscriptionId]);
  }

  /** Returns the cursors of all subscriptions, including deleted ones whose rows still exist. */
  cursors(): Promise<SubscriptionCursor[]> {
    return this.database.query<SubscriptionCursor & Record<string, unknown>>(
      `select subscription_id as "subscriptionId", account_id as "accountId", position, exists (
         select from event_deliveries d where d.subscription_id = c.subscription_id and status = 'pending' and next_attempt_at <= now()) as "isDue"
       from subscription_cursors c`,
    );
  }
}
