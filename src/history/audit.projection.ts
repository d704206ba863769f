import { Injectable } from '@nestjs/common';

import { Database } from '../platform/database/database.ts';
import type { Json, JsonObject } from '../platform/event-store/event-definition.ts';
import { categoryOf, idOf, type ActorKind, type Position, type StoredEvent } from '../platform/event-store/event-store.ts';
import type { Projection } from '../platform/projections/projection.ts';
import { masked, type EventSelection } from './history-item.ts';

export interface AuditColumns {
  /** Stream and revision. */
  entry: string;
  position: Position;
  event_id: string;
  stream: string;
  revision: number;
  type: string;
  version: number;
  at: string;
  /** Null: of nobody's account, for administrators alone. */
  account_id: string | null;
  /** The agent that it is about. */
  agent_id: string | null;
  actor_kind: ActorKind;
  actor_id: string;
  actor_name: string;
  request_id: string | null;
  causation_id: string | null;
  /** What is sealed is masked: a row outlives no key. */
  data: Json;
}

/** Every event but output, which is no act: what containers and builds print is read where logs are. */
export const auditProjection: Projection<AuditColumns> = {
  name: 'audit_entries',
  version: 1,
  filter: { eventClass: 'core' },
  table: {
    name: 'audit_entries',
    key: 'entry',
    columns: {
      entry: 'text collate "C" not null',
      position: 'text collate "C" not null',
      event_id: 'text not null',
      stream: 'text collate "C" not null',
      revision: 'integer not null',
      type: 'text collate "C" not null',
      version: 'integer not null',
      at: 'timestamptz(3) not null',
      account_id: 'text collate "C"',
      agent_id: 'text collate "C"',
      actor_kind: 'text not null',
      actor_id: 'text collate "C" not null',
      actor_name: 'text not null',
      request_id: 'text',
      causation_id: 'text',
      data: 'json not null',
    },
    indexes: {
      by_position: '(position)',
      by_account: '(account_id, position)',
      by_agent: '(agent_id, position)',
      by_time: '(at, position)',
    },
  },
  keys: (event) => (categoryOf(event.stream) === 'conversation' ? [entryOf(event.stream, 0)] : []),
  project(event, rows) {
    if (categoryOf(event.stream) === 'deployment') return;
    const { actor, account_id, request_id, causation_id } = event.metadata;
    const agent_id = agentOf(event) ?? (categoryOf(event.stream) === 'conversation' ? rows.get(entryOf(event.stream, 0))?.agent_id : null);
    rows.set(entryOf(event.stream, event.revision), {
      entry: entryOf(event.stream, event.revision),
      position: event.position,
      event_id: event.id,
      stream: event.stream,
      revision: event.revision,
      type: event.type,
      version: event.schemaVersion,
      at: event.at,
      account_id,
      agent_id: agent_id ?? null,
      actor_kind: actor.kind,
      actor_id: actor.id,
      actor_name: actor.name,
      request_id,
      causation_id,
      data: masked(event.data),
    });
  },
};

function entryOf(stream: string, revision: number): string {
  return `${stream} ${revision}`;
}

/** A conversation says it in its first event alone. */
function agentOf({ stream, data }: StoredEvent): string | null {
  if (categoryOf(stream) === 'agent') return idOf(stream);
  return typeof data.agent_id === 'string' ? data.agent_id : null;
}

/** Whose events, and which of them. */
export interface AuditSelection extends EventSelection {
  /** Null: everybody's, and nobody's. */
  accountId: string | null;
  agentId: string | null;
  newestFirst: boolean;
}

/** An event as the audit keeps it, and what it is about. */
export interface AuditedEvent extends StoredEvent {
  agentId: string | null;
}

/** By how much a store's clock may have been put back and a time still be found, as an interval. */
const CLOCK_SLACK = `interval '1 hour'`;

/** The rows of the audit. */
@Injectable()
export class AuditEntries {
  constructor(private readonly database: Database) {}

  /** In the log's order, from behind the position on (null: from the beginning, or the end); at most `limit` of them. */
  async list(selection: AuditSelection, after: Position | null, limit: number): Promise<AuditedEvent[]> {
    const { conditions, values } = conditionsOf(selection, after);
    const where = conditions.length === 0 ? '' : `where ${conditions.join(' and ')}`;
    const order = selection.newestFirst ? 'desc' : 'asc';
    const rows = await this.database.query<Row>(`select * from audit_entries ${where} order by position ${order} limit ${limit}`, values);
    return rows.map(eventOf);
  }

  /** The message to the agent with the id, or the last one between two positions; null where there is none. */
  async messageTo(agentId: string, wanted: { id: string } | { after: Position; before: Position }): Promise<StoredEvent | null> {
    const [condition, values] =
      'id' in wanted ? [`data->>'message_id' = $2`, [wanted.id]] : ['position > $2 and position < $3', [wanted.after, wanted.before]];
    const [row] = await this.database.query<Row>(
      `select * from audit_entries where agent_id = $1 and type = 'MessageAccepted' and ${condition} order by position desc limit 1`,
      [agentId, ...values],
    );
    return row === undefined ? null : eventOf(row);
  }
}

type Row = Omit<AuditColumns, 'at'> & { at: Date } & Record<string, unknown>;

function conditionsOf(
  { accountId, agentId, types, actor, since, until, newestFirst }: AuditSelection,
  after: Position | null,
): { conditions: string[]; values: unknown[] } {
  const values: unknown[] = [];
  const given = (value: unknown) => `$${values.push(value)}`;
  const conditions: string[] = [];
  if (accountId !== null) conditions.push(`account_id = ${given(accountId)}`);
  if (agentId !== null) conditions.push(`agent_id = ${given(agentId)}`);
  if (types !== null) conditions.push(`type = any (${given(types)}::text[])`);
  if (actor !== null) {
    const value = given(actor);
    conditions.push(`(actor_id = ${value} or actor_kind = ${value})`);
  }
  if (after !== null) conditions.push(`position ${newestFirst ? '<' : '>'} ${given(after)}`);
  // The bound on positions spares the way through all that is older, or newer; the time itself decides.
  if (since !== null) {
    const value = `${given(since)}::timestamptz`;
    const first = `select position from audit_entries where at >= ${value} - ${CLOCK_SLACK} order by at, position limit 1`;
    conditions.push(`at >= ${value} and position >= (${first})`);
  }
  if (until !== null) {
    const value = `${given(until)}::timestamptz`;
    const last = `select position from audit_entries where at < ${value} + ${CLOCK_SLACK} order by at desc, position desc limit 1`;
    conditions.push(`at < ${value} and position <= (${last})`);
  }
  return { conditions, values };
}

function eventOf(row: Row): AuditedEvent {
  const { actor_kind: kind, actor_id: id, actor_name: name } = row;
  return {
    id: row.event_id,
    type: row.type,
    schemaVersion: row.version,
    data: row.data as JsonObject,
    metadata: {
      actor: { kind, id, name },
      account_id: row.account_id,
      request_id: row.request_id,
      causation_id: row.causation_id,
      ip: null,
    },
    stream: row.stream,
    revision: row.revision,
    position: row.position,
    at: row.at.toISOString(),
    agentId: row.agent_id,
  };
}
