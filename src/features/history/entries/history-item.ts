import type { EventCatalogue } from '../../../eventsourcing/event-store/event-catalogue.ts';
import type { Json, JsonObject } from '../../../eventsourcing/event-store/event-definition.ts';
import type { StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import type { ActorKind, Actor } from '../../../kernel/context/actor.ts';

/** The actor of an event: the holder of a key or a session, an anonymous caller, a webhook, a viewer of a computer, or a part of the service itself. */
export class ActorView {
  kind: ActorKind;
  id: string;
  name: string;
}

/** One event as callers see it. */
export class HistoryItem {
  event_id: string;
  type: string;
  version: number;
  /** The event's revision in its stream, from 0. */
  revision: number;
  /** The event's position in the whole log. Positions compare as text. */
  position: string;
  at: string;
  actor: ActorView;
  /** The id of the request that directly caused the event; null if the service acted by itself. */
  request_id: string | null;
  /** The id of the event or the message that caused this one; null if a request caused it. */
  causation_id: string | null;
  /** A sentence that says what happened. */
  summary: string;
  /** The data of the event, with encrypted values masked. */
  data: object;
}

/** An event of an account, with the agent or the computer that it concerns, if any. */
export class AuditItem extends HistoryItem {
  account_id: string | null;
  agent_id: string | null;
  computer_id: string | null;
  stream: string;
}

/** Selects events. A member that is null selects all. */
export interface EventSelection {
  types: readonly string[] | null;
  /** The id or the kind of an actor. */
  actor: string | null;
  /** The earliest time, inclusive, in ISO 8601 UTC with milliseconds. */
  since: string | null;
  /** The latest time, exclusive. */
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

/** Replaces encrypted values and the hashes of keys by a mask, so that only their presence is visible. */
export function masked(value: Json): Json {
  if (Array.isArray(value)) return value.map(masked);
  if (typeof value !== 'object' || value === null) return value;
  if (isSealed(value)) return MASK;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, name === 'sha256' ? MASK : masked(member)]));
}

function isSealed(value: JsonObject): boolean {
  return value.v === 1 && typeof value.key === 'number' && typeof value.iv === 'string' && typeof value.ct === 'string';
}
