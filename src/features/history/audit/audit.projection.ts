import { hash } from 'node:crypto';

import { v5 as uuidv5 } from 'uuid';

import { categoryOf, idOf, type Position, type StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import type { ActorKind } from '../../../kernel/context/actor.ts';
import type { Projection } from '../../../eventsourcing/projections/projection.ts';
import { computerOf } from '../../../sandboxes/index.ts';
import { auditTable } from './audit.table.ts';

/** Lists every event except the output of containers and builds, which is read in the logs. */
export const auditProjection: Projection<typeof auditTable> = {
  name: 'audit_entries',
  version: 3,
  filter: { eventClass: 'core' },
  table: auditTable,
  keys: ({ stream }) => (categoryOf(stream) === 'conversation' ? [conversationKey(stream)] : []),
  project(event, rows) {
    const category = categoryOf(event.stream);
    if (category === 'deployment') return;
    const { actor, account_id } = event.metadata;
    const told = subjectOf(event);
    if (category === 'conversation' && told !== null) {
      const position = conversationKey(event.stream);
      rows.set(position, { position, at: event.at, account_id: null, subject_id: uuidOf(told), type: 0, actor_kind: 0, actor: '0' });
    }
    const subject_id =
      told === null && category === 'conversation' ? rows.get(conversationKey(event.stream))?.subject_id : told && uuidOf(told);
    const position = BigInt(event.position).toString();
    rows.set(position, {
      position,
      at: event.at,
      account_id: account_id && uuidOf(account_id),
      subject_id: subject_id ?? null,
      type: typeCode(event.type),
      actor_kind: kindCode(actor.kind),
      actor: actorCode(actor.id),
    });
  },
};

/** Returns the agent that the event names. A conversation names its agent only in its first event. */
export function agentOf({ stream, data }: StoredEvent): string | null {
  if (categoryOf(stream) === 'agent') return idOf(stream);
  return typeof data.agent_id === 'string' ? data.agent_id : null;
}

/** Returns the id of the agent or the computer that the event names. Agents and computers never share an id. */
function subjectOf(event: StoredEvent): string | null {
  return agentOf(event) ?? computerOf(event);
}

export function positionOf(number: string): Position {
  return number.padStart(20, '0');
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const OTHER_IDS = '5d3e2c1e-1a0b-4f6e-9d5c-3f0f7c3f2b7a';

/** Returns the id if it is a UUID, or else a UUID derived from it. */
export function uuidOf(id: string): string {
  return UUID.test(id) ? id.toLowerCase() : uuidv5(id, OTHER_IDS);
}

const typeCodes = new Map<string, number>();

/** Returns 32 bits of a hash. A test checks that no two types in the catalogue have the same code. */
export function typeCode(type: string): number {
  const known = typeCodes.get(type);
  if (known !== undefined) return known;
  const code = digest(type).readInt32BE(0);
  if (typeCodes.size < 1_000) typeCodes.set(type, code);
  return code;
}

/** Returns 63 bits of a hash. */
export function actorCode(id: string): string {
  return (digest(id).readBigUInt64BE(0) >> 1n).toString();
}

const kinds: Record<ActorKind, number> = { api_key: 1, session: 2, system: 3, webhook: 4, anonymous: 5, viewer: 6 };

/** Returns the code of the kind; 0 if there is no such kind. */
export function kindCode(kind: string): number {
  return Object.hasOwn(kinds, kind) ? kinds[kind as ActorKind] : 0;
}

/** Returns a negative number with 63 bits of a hash. */
function conversationKey(stream: string): string {
  return (-1n - (digest(stream).readBigUInt64BE(0) >> 1n)).toString();
}

function digest(text: string): Buffer {
  return hash('sha1', text, 'buffer');
}
