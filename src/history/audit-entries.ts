import { Injectable } from '@nestjs/common';

import { Database } from '../platform/database/database.ts';
import { EventStore, type Position, type StoredEvent } from '../platform/event-store/event-store.ts';
import { actorCode, agentOf, auditProjection, BUCKET, bucketOf, kindCode, positionOf, typeCode, uuidOf } from './audit.projection.ts';
import { tableOf } from '../platform/projections/projection.ts';
import type { EventSelection } from './history-item.ts';

const AUDIT = tableOf(auditProjection);

/** Whose events, and which of them. */
export interface AuditSelection extends EventSelection {
  /** Null: everybody's, and nobody's. */
  accountId: string | null;
  agentId: string | null;
  newestFirst: boolean;
}

/** An event, and what it is about. */
export interface AuditedEvent extends StoredEvent {
  agentId: string | null;
}

/** By how much a store's clock may have been put back and a time still be found, ms. */
const CLOCK_SLACK_MS = 3_600_000;
const POSITION_MAX = 2n ** 63n - 1n;
/** Messages that are looked through at once for one by its id. */
const MESSAGES_AT_ONCE = 100;

/** Positions and times within which entries are wanted. */
interface Bounds {
  /** Both not included. */
  after: bigint;
  before: bigint;
  since: string | null;
  until: string | null;
}

/** Finds events by the rows of the audit, and reads them from the log. */
@Injectable()
export class AuditEntries {
  constructor(
    private readonly database: Database,
    private readonly store: EventStore,
  ) {}

  /** In the log's order, from behind the position on (null: from the beginning, or the end); at most `limit` of them. */
  async list(selection: AuditSelection, after: Position | null, limit: number): Promise<AuditedEvent[]> {
    const bounds = await this.bounds(selection, after);
    const { text, values } = entriesQuery(selection, bounds, limit);
    const rows = await this.database.query<{ position: string; agent_id: string | null }>(text, values);
    const agentIds = new Map(rows.map(({ position, agent_id }) => [positionOf(position), agent_id]));
    const events = await this.store.readAt([...agentIds.keys()]);
    return events.map((event) => ({ ...event, agentId: agentOf(event) ?? agentIds.get(event.position) ?? null }));
  }

  /** The last message to the agent between two positions; null where there is none. */
  async lastMessageTo(agentId: string, after: Position | null, before: Position): Promise<StoredEvent | null> {
    const [message] = await this.messagesTo(agentId, before, 1);
    return message !== undefined && (after === null || message.position > after) ? message : null;
  }

  /** The message to the agent with the id, which was accepted before the position; null where there is none. */
  async messageTo(agentId: string, id: string, before: Position): Promise<StoredEvent | null> {
    for (let place: Position | undefined = before; place !== undefined;) {
      const messages: StoredEvent[] = await this.messagesTo(agentId, place, MESSAGES_AT_ONCE);
      const found = messages.find(({ data }) => data.message_id === id);
      if (found !== undefined) return found;
      place = messages.at(-1)?.position;
    }
    return null;
  }

  /** The newest first. */
  private messagesTo(agentId: string, before: Position, limit: number): Promise<StoredEvent[]> {
    const messages = { accountId: null, agentId, types: ['MessageAccepted'], actor: null, since: null, until: null, newestFirst: true };
    return this.list(messages, before, limit);
  }

  /** Times become positions, so that an index leads to where they begin. */
  private async bounds({ since, until, newestFirst }: AuditSelection, after: Position | null): Promise<Bounds> {
    const bounds: Bounds = { after: 0n, before: POSITION_MAX, since, until };
    if (after !== null) bounds[newestFirst ? 'before' : 'after'] = least(BigInt(after), POSITION_MAX);
    if (since !== null) bounds.after = greatest(bounds.after, await this.lastBefore(Date.parse(since) - CLOCK_SLACK_MS));
    if (until !== null) bounds.before = least(bounds.before, (await this.lastBefore(Date.parse(until) + CLOCK_SLACK_MS)) + 1n);
    return bounds;
  }

  /** The position of the last entry before the time; 0 where there is none. Halves the audit again and again, for times grow with positions. */
  private async lastBefore(time: number): Promise<bigint> {
    const [newest] = await this.database.query<{ position: string }>(
      `select position from ${AUDIT} where position > 0 order by position desc limit 1`,
    );
    let low = 0n;
    let high = BigInt(newest?.position ?? 0);
    while (low < high) {
      const middle = (low + high) / 2n;
      const [next] = await this.database.query<{ position: string; at: Date }>(
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
 * Every alternative of types and actors is a query of its own that one index answers in its order, and ends when it has as many as are
 * wanted: `any (…)` would have to read all that there is of each. Rows that two of them give count once.
 */
function entriesQuery(selection: AuditSelection, bounds: Bounds, limit: number): { text: string; values: unknown[] } {
  const values: unknown[] = [];
  const given = (value: unknown) => `$${values.push(value)}`;
  const direction = selection.newestFirst ? 'desc' : 'asc';
  const alternatives = alternativesOf(selection);
  const common = conditionsOf(bounds, given);
  const parts = alternatives.map((equals) => {
    const own = Object.entries(equals).map(([column, value]) => `${column} = ${given(value)}`);
    // Without an index by bucket the key alone has the order.
    const order = own.length === 0 ? `position ${direction}` : `${BUCKET} ${direction}, position ${direction}`;
    return `(select position, agent_id from ${AUDIT} where ${[...own, ...common].join(' and ')} order by ${order} limit ${limit})`;
  });
  return { text: `select position, agent_id from (${parts.join(' union ')}) found order by position ${direction} limit ${limit}`, values };
}

/** Sets of column and value; an entry has to fit one of them. */
function alternativesOf({ accountId, agentId, types, actor }: AuditSelection): Record<string, string | number>[] {
  const whose = {
    ...(accountId === null ? {} : { account_id: uuidOf(accountId) }),
    ...(agentId === null ? {} : { agent_id: uuidOf(agentId) }),
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
