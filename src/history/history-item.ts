import type { EventCatalogue } from '../platform/event-store/catalogue.ts';
import type { Json, JsonObject } from '../platform/event-store/event-definition.ts';
import type { Actor, ActorKind, StoredEvent } from '../platform/event-store/event-store.ts';

/** Who did it: the holder of a key or a session, somebody without either, or a part of the service itself. */
export class ActorView {
  kind: ActorKind;
  id: string;
  name: string;
}

/** One event as people are shown it. */
export class HistoryItem {
  event_id: string;
  type: string;
  version: number;
  /** Its place in its own stream, from 0. */
  revision: number;
  /** Its place in the whole log; compare as text. */
  position: string;
  at: string;
  actor: ActorView;
  /** Of the request that led to it at once; null where the service acted by itself. */
  request_id: string | null;
  /** The id of the event, or of the message, that led to it; null where a request did. */
  causation_id: string | null;
  /** What happened, in a sentence. */
  summary: string;
  /** What is sealed is masked. */
  data: object;
}

/** An item of the whole account: the agent that it is about, where it is about one. */
export class AuditItem extends HistoryItem {
  account_id: string | null;
  agent_id: string | null;
  stream: string;
}

/** Which events are wanted; a null asks for all. */
export interface EventSelection {
  types: readonly string[] | null;
  /** The id of an actor, or a kind of them. */
  actor: string | null;
  /** ISO 8601 UTC with milliseconds; that time included. */
  since: string | null;
  /** That time not included. */
  until: string | null;
}

export function isSelected({ types, actor, since, until }: EventSelection, event: StoredEvent): boolean {
  const by: Actor = event.metadata.actor;
  return (
    (types === null || types.includes(event.type)) &&
    (actor === null || by.id === actor || by.kind === actor) &&
    (since === null || event.at >= since) &&
    (until === null || event.at < until)
  );
}

export function selectsAll(selection: EventSelection): boolean {
  return Object.values(selection).every((wanted) => wanted === null);
}

const MASK = '•'.repeat(8);

export function historyItem(event: StoredEvent, catalogue: EventCatalogue): HistoryItem {
  const { actor, request_id, causation_id } = event.metadata;
  return {
    event_id: event.id,
    type: event.type,
    version: event.schemaVersion,
    revision: event.revision,
    position: event.position,
    at: event.at,
    actor,
    request_id,
    causation_id,
    summary: catalogue.summaryOf(event),
    data: masked(event.data) as JsonObject,
  };
}

/** What is sealed, and what a key is known by, is shown as that something is there, and nothing more. */
export function masked(value: Json): Json {
  if (Array.isArray(value)) return value.map(masked);
  if (typeof value !== 'object' || value === null) return value;
  if (isSealed(value)) return MASK;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, name === 'sha256' ? MASK : masked(member)]));
}

function isSealed(value: JsonObject): boolean {
  return value.v === 1 && typeof value.key === 'number' && typeof value.iv === 'string' && typeof value.ct === 'string';
}
