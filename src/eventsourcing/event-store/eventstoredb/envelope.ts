import { jsonEvent, type AllStreamResolvedEvent, type EventData, type JSONType, type ResolvedEvent } from '@eventstore/db-client';
import { v5 as uuidv5 } from 'uuid';
import type { EventCatalogue } from '../event-catalogue.ts';
import type { JsonObject } from '../event-definition.ts';
import type { EventClass, EventMetadata, Position, StoredEvent } from '../event-store.ts';
import type { SerialisedEvent } from '../new-events.ts';
import type { Names } from './names.ts';

/** The type of the last event of a closed stream. The adapter hides this event from all readers. */
const CLOSING = 'StreamClosed';
const CLOSING_NAMESPACE = 'f0a3a5ba-6c1e-4f5a-9a35-2f1d0b6e7c11';

/** The stored metadata: that of the port, and the adapter's own. */
interface StoredMetadata extends EventMetadata {
  schema_version: number;
  /** The call that wrote the event. A repeated call with the same ids finds the first call's name here. */
  written_by: string;
  /** The time at which another store recorded the event, if the log was moved from there. It replaces the server's own time. */
  recorded_at?: string;
}

/** An event as the server returned it. */
export interface Recorded {
  id: string;
  type: string;
  stream: string;
  /** The class of the stream; null if the stream belongs to another installation. */
  eventClass: EventClass | null;
  revision: number;
  position: Position;
  at: Date;
  data: JsonObject;
  metadata: Partial<StoredMetadata>;
}

export function positionOf(commit: bigint): Position {
  return commit.toString().padStart(20, '0');
}

/** Returns the client's form of a position other than the start: two numbers that are the same. Throws `RangeError`. */
export function serverPosition(position: Position): { commit: bigint; prepare: bigint } {
  if (!/^\d{20}$/.test(position)) throw new RangeError(`${JSON.stringify(position)} is not a position of this event store`);
  const commit = BigInt(position);
  return { commit, prepare: commit };
}

export function toServer({ id, type, schemaVersion, data, metadata }: SerialisedEvent, writtenBy: string): EventData {
  const stored = { schema_version: schemaVersion, written_by: writtenBy, ...(JSON.parse(metadata) as object) };
  return jsonEvent({ id, type, data: JSON.parse(data) as JSONType, metadata: stored });
}

export function closingEvent(stream: string): EventData {
  return jsonEvent({ id: uuidv5(stream, CLOSING_NAMESPACE), type: CLOSING, data: {}, metadata: { schema_version: 1 } });
}

export function isClosing({ type }: Recorded): boolean {
  return type === CLOSING;
}

/** Returns the event, or null if a link leads to no event. */
export function fromServer({ event, commitPosition }: ResolvedEvent | AllStreamResolvedEvent, names: Names): Recorded | null {
  if (event === undefined || commitPosition === undefined) return null;
  const { id, type, streamId, revision, created, data, metadata } = event;
  return {
    id,
    type,
    stream: names.fromServer(streamId),
    eventClass: names.classOf(streamId),
    revision: Number(revision),
    position: positionOf(commitPosition),
    at: created,
    data: data as unknown as JsonObject,
    metadata: (metadata ?? {}) as Partial<StoredMetadata>,
  };
}

/** Returns the event in the port's form and in its current version. Throws `UnknownEvent`. */
export function toPort({ metadata, at, ...event }: Recorded, catalogue: EventCatalogue): StoredEvent {
  const { schema_version, written_by: _, recorded_at, ...given } = metadata;
  return catalogue.upcast({
    id: event.id,
    type: event.type,
    schemaVersion: schema_version ?? 1,
    data: event.data,
    metadata: given as EventMetadata,
    stream: event.stream,
    revision: event.revision,
    position: event.position,
    at: recorded_at ?? at.toISOString(),
  });
}
