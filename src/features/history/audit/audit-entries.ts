import { Injectable } from '@nestjs/common';

import { Database } from '../../../postgres/database/database.ts';
import { EventStore, type Position, type StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { actorCode, agentOf, auditProjection, kindCode, positionOf, typeCode, uuidOf } from './audit.projection.ts';
import { type AuditRow, BUCKET, bucketOf } from './audit.table.ts';
import { computerOf } from '../../../sandboxes/index.ts';
import { tableOf } from '../../../eventsourcing/projections/projection.ts';
import type { EventSelection } from '../entries/history-item.ts';

const AUDIT = tableOf(auditProjection);

/** Selects events from the audit. */
export interface AuditSelection extends EventSelection {
  /** The account whose events are selected. Null selects all events, including those without an account. */
  accountId: string | null;
  /** The agent or the computer that the events concern. */
  subjectId: string | null;
  newestFirst: boolean;
}

/** The position in the log up to which a consumer has read the events of an account. */
export interface AccountCursor {
  readonly accountId: string;
  readonly position: Position;
}

/** An event, and the agent or the computer that it concerns. */
export interface AuditEvent extends StoredEvent {
  agentId: string | null;
  computerId: string | null;
}

/** The largest backward step of a store's clock, in ms, that a search by time tolerates. */
const CLOCK_SLACK_MS = 3_600_000;
const POSITION_MAX = 2n ** 63n - 1n;
/** The number of messages that are read per query in a search by id. */
const MESSAGES_PER_READ = 100;

/** The search for each cursor ends at the first entry. The order makes it use the index, however many earlier entries the account has. */
const STALE_CURSORS = `
  select number from unnest($1::uuid[], $2::bigint[], $3::int[]) with ordinality as place (account, after, bucket, number)
  cross join lateral (
    select from ${AUDIT} where account_id = account and position > 0 and position > after and ${BUCKET} >= bucket
    order by ${BUCKET} limit 1) as entry`;

/** The range of positions and times from which entries are selected. */
interface Bounds {
  /** The range of positions excludes both ends. */
  after: bigint;
  before: bigint;
  since: string | null;
  until: string | null;
}

/** Finds events through the rows of the audit, and reads them from the log. */
@Injectable()
export class AuditEntries {
  constructor(
    private readonly database: Database,
    private readonly store: EventStore,
  ) {}

  /**
   * Reads at most `limit` events after the position `after`, in the order of the log or, with `newestFirst`, the reverse. If `after` is
   * null, it starts at the beginning or the end of the log.
   */
  async *list(selection: AuditSelection, after: Position | null, limit: number): AsyncGenerator<AuditEvent> {
    const bounds = await this.bounds(selection, after);
    const { text, values } = entriesQuery(selection, bounds, limit);
    const rows = await this.database.query<Pick<AuditRow, 'position' | 'subject_id'>>(text, values);
    const subjects = new Map(rows.map(({ position, subject_id }) => [positionOf(position), subject_id]));
    for await (const event of this.store.readAt([...subjects.keys()])) {
      const computerId = computerOf(event);
      const agentId = computerId === null ? (agentOf(event) ?? subjects.get(event.position) ?? null) : null;
      yield { ...event, agentId, computerId };
    }
  }

  /** Returns the last message to the agent between the two positions; null if there is none. */
  async lastMessageTo(agentId: string, after: Position | null, before: Position): Promise<StoredEvent | null> {
    for await (const message of this.messagesTo(agentId, before, 1)) return after === null || message.position > after ? message : null;
    return null;
  }

  /** Returns the message to the agent that has this id and was accepted before the position, or null if there is none. */
  async messageTo(agentId: string, id: string, before: Position): Promise<StoredEvent | null> {
    for (let place: Position | null = before; place !== null;) {
      const from: Position = place;
      place = null;
      for await (const message of this.messagesTo(agentId, from, MESSAGES_PER_READ)) {
        if (message.data.message_id === id) return message;
        place = message.position;
      }
    }
    return null;
  }

  /** Returns the cursors that are behind their account's newest event. */
  async findStale(places: readonly AccountCursor[]): Promise<AccountCursor[]> {
    if (places.length === 0) return [];
    const rows = await this.database.query<{ number: string }>(STALE_CURSORS, [
      places.map(({ accountId }) => uuidOf(accountId)),
      places.map(({ position }) => BigInt(position).toString()),
      places.map(({ position }) => bucketOf(BigInt(position))),
    ]);
    return rows.flatMap(({ number }) => places[Number(number) - 1] ?? []);
  }

  /** Reads messages to the agent, newest first. */
  private messagesTo(agentId: string, before: Position, limit: number): AsyncIterable<StoredEvent> {
    const messages = {
      accountId: null,
      subjectId: agentId,
      types: ['MessageAccepted'],
      actor: null,
      since: null,
      until: null,
      newestFirst: true,
    };
    return this.list(messages, before, limit);
  }

  /** Translates times to positions, so that an index can be used. */
  private async bounds({ since, until, newestFirst }: AuditSelection, after: Position | null): Promise<Bounds> {
    const bounds: Bounds = { after: 0n, before: POSITION_MAX, since, until };
    if (after !== null) bounds[newestFirst ? 'before' : 'after'] = least(BigInt(after), POSITION_MAX);
    if (since !== null) bounds.after = greatest(bounds.after, await this.lastBefore(Date.parse(since) - CLOCK_SLACK_MS));
    if (until !== null) bounds.before = least(bounds.before, (await this.lastBefore(Date.parse(until) + CLOCK_SLACK_MS)) + 1n);
    return bounds;
  }

  /**
   * Returns the position of the last entry before the time, or 0 if there is none. It searches by bisection, because times increase with
   * positions.
   */
  private async lastBefore(time: number): Promise<bigint> {
    const [newest] = await this.database.query<Pick<AuditRow, 'position'>>(
      `select position from ${AUDIT} where position > 0 order by position desc limit 1`,
    );
    let low = 0n;
    let high = BigInt(newest?.position ?? 0);
    while (low < high) {
      const middle = (low + high) / 2n;
      const [next] = await this.database.query<Pick<AuditRow, 'position' | 'at'>>(
        `select position, at from ${AUDIT} where position > $1 order by position limit 1`,
        [middle.toString()],
      );
      if (next !== undefined && next.at.getTime() < time) low = BigInt(next.position);
      else high = middle;
    }
    return low;
  }
}

/**
 * Builds one subquery for each combination of type and actor. An index returns its rows in order, and it ends once it has `limit` rows,
 * whereas `any (…)` would read all rows of each combination. The union removes duplicates.
 */
function entriesQuery(selection: AuditSelection, bounds: Bounds, limit: number): { text: string; values: unknown[] } {
  const values: unknown[] = [];
  const given = (value: unknown) => `$${values.push(value)}`;
  const direction = selection.newestFirst ? 'desc' : 'asc';
  const alternatives = alternativesOf(selection);
  const common = conditionsOf(bounds, given);
  const parts = alternatives.map((equals) => {
    const own = Object.entries(equals).map(([column, value]) => `${column} = ${given(value)}`);
    // Without an equality condition, the primary key is used, which has the order.
    const order = own.length === 0 ? `position ${direction}` : `${BUCKET} ${direction}, position ${direction}`;
    return `(select position, subject_id from ${AUDIT} where ${[...own, ...common].join(' and ')} order by ${order} limit ${limit})`;
  });
  return {
    text: `select position, subject_id from (${parts.join(' union ')}) found order by position ${direction} limit ${limit}`,
    values,
  };
}

/** Returns sets of column values; an entry has to match one of them. */
function alternativesOf({ accountId, subjectId, types, actor }: AuditSelection): Record<string, string | number>[] {
  const whose = {
    ...(accountId === null ? {} : { account_id: uuidOf(accountId) }),
    ...(subjectId === null ? {} : { subject_id: uuidOf(subjectId) }),
  };
  const ofTypes: Record<string, number>[] = types === null ? [{}] : [...new Set(types.map(typeCode))].map((type) => ({ type }));
  const byActors: Record<string, string | number>[] =
    actor === null ? [{}] : [{ actor: actorCode(actor) }, ...(kindCode(actor) === 0 ? [] : [{ actor_kind: kindCode(actor) }])];
  return ofTypes.flatMap((ofType) => byActors.map((byActor) => ({ ...whose, ...ofType, ...byActor })));
}

function conditionsOf({ after, before, since, until }: Bounds, given: (value: unknown) => string): string[] {
  const conditions = ['position > 0'];
  if (after > 0n) conditions.push(`position > ${given(after.toString())}`, `${BUCKET} >= ${given(bucketOf(after))}`);
  if (before < POSITION_MAX) conditions.push(`position < ${given(before.toString())}`, `${BUCKET} <= ${given(bucketOf(before))}`);
  if (since !== null) conditions.push(`at >= ${given(since)}`);
  if (until !== null) conditions.push(`at < ${given(until)}`);
  return conditions;
}

function least(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

function greatest(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}
