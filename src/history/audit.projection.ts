import { hash } from 'node:crypto';

import { v5 as uuidv5 } from 'uuid';

import { categoryOf, idOf, type ActorKind, type Position, type StoredEvent } from '../platform/event-store/event-store.ts';
import type { Projection } from '../platform/projections/projection.ts';

/** What filters and the order of the audit need of an event, and no more: the event itself stands in the log, at the position. */
export interface AuditColumns {
  /** The event's. Below zero stands no event but a conversation, for the events that follow in it. */
  position: string;
  at: string;
  /** Null: of nobody's account, for administrators alone. */
  account_id: string | null;
  /** The agent that it is about. */
  agent_id: string | null;
  /** `typeCode` of the event's type; 0 in the row of a conversation. */
  type: number;
  /** `kindCode` of the actor's kind. */
  actor_kind: number;
  /** `actorCode` of the actor's id. */
  actor: string;
}

/**
 * Positions that count as one in the indexes by account, agent, type and actor: keys that are equal share one entry of a B-tree, so an
 * index takes about 8 bytes an event and not 30. What an index gives is in the order of these; within one it is sorted when it is read.
 */
const BUCKET_BITS = 13;
export const BUCKET = `((position >> ${BUCKET_BITS})::int)`;
const BUCKET_MAX = 2n ** 31n - 1n;

/** The `BUCKET` in which the position is. */
export function bucketOf(position: bigint): number {
  const bucket = position >> BigInt(BUCKET_BITS);
  return Number(bucket > BUCKET_MAX ? BUCKET_MAX : bucket);
}

const byBucket = (column: string) => `(${column}, ${BUCKET}) where position > 0`;

/** Every event but output, which is no act: what containers and builds print is read where logs are. */
export const auditProjection: Projection<AuditColumns> = {
  name: 'audit_entries',
  version: 2,
  filter: { eventClass: 'core' },
  table: {
    name: 'audit_entries',
    key: 'position',
    columns: {
      position: 'bigint not null',
      at: 'timestamptz(3) not null',
      account_id: 'uuid',
      agent_id: 'uuid',
      actor: 'bigint not null',
      type: 'integer not null',
      actor_kind: 'smallint not null',
    },
    indexes: {
      by_account: byBucket('account_id'),
      by_agent: byBucket('agent_id'),
      by_type: byBucket('type'),
      by_actor: byBucket('actor'),
      by_kind: byBucket('actor_kind'),
    },
  },
  keys: ({ stream }) => (categoryOf(stream) === 'conversation' ? [conversationKey(stream)] : []),
  project(event, rows) {
    const category = categoryOf(event.stream);
    if (category === 'deployment') return;
    const { actor, account_id } = event.metadata;
    const told = agentOf(event);
    if (category === 'conversation' && told !== null) {
      const position = conversationKey(event.stream);
      rows.set(position, { position, at: event.at, account_id: null, agent_id: uuidOf(told), type: 0, actor_kind: 0, actor: '0' });
    }
    const agent_id =
      told === null && category === 'conversation' ? rows.get(conversationKey(event.stream))?.agent_id : told && uuidOf(told);
    const position = BigInt(event.position).toString();
    rows.set(position, {
      position,
      at: event.at,
      account_id: account_id && uuidOf(account_id),
      agent_id: agent_id ?? null,
      type: typeCode(event.type),
      actor_kind: kindCode(actor.kind),
      actor: actorCode(actor.id),
    });
  },
};

/** What the event itself tells; a conversation tells it in its first event alone. */
export function agentOf({ stream, data }: StoredEvent): string | null {
  if (categoryOf(stream) === 'agent') return idOf(stream);
  return typeof data.agent_id === 'string' ? data.agent_id : null;
}

export function positionOf(number: string): Position {
  return number.padStart(20, '0');
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const OTHER_IDS = '5d3e2c1e-1a0b-4f6e-9d5c-3f0f7c3f2b7a';

/** Ids are UUIDs; where one is not, another one stands for it. */
export function uuidOf(id: string): string {
  return UUID.test(id) ? id.toLowerCase() : uuidv5(id, OTHER_IDS);
}

const typeCodes = new Map<string, number>();

/** 32 bits of a hash: a test sees to it that no two types of the catalogue have the same. */
export function typeCode(type: string): number {
  const known = typeCodes.get(type);
  if (known !== undefined) return known;
  const code = digest(type).readInt32BE(0);
  if (typeCodes.size < 1_000) typeCodes.set(type, code);
  return code;
}

/** 63 bits of a hash. */
export function actorCode(id: string): string {
  return (digest(id).readBigUInt64BE(0) >> 1n).toString();
}

const kinds: Record<ActorKind, number> = { api_key: 1, session: 2, system: 3, webhook: 4, anonymous: 5 };

/** 0 where it is the name of no kind. */
export function kindCode(kind: string): number {
  return Object.hasOwn(kinds, kind) ? kinds[kind as ActorKind] : 0;
}

/** 63 bits of a hash, below zero. */
function conversationKey(stream: string): string {
  return (-1n - (digest(stream).readBigUInt64BE(0) >> 1n)).toString();
}

function digest(text: string): Buffer {
  return hash('sha1', text, 'buffer');
}
