import type { EventCatalogue } from './event-catalogue.ts';
import type { ExpectedRevision, NewEvent } from './event-store.ts';
import { storedJson } from './stored-json.ts';

const EVENTS_MAX = 500;
const BYTES_MAX = 1024 * 1024;

export interface SerialisedEvent {
  id: string;
  type: string;
  schemaVersion: number;
  /** The data and the metadata, each as JSON text. */
  data: string;
  metadata: string;
}

export interface Prepared {
  events: SerialisedEvent[];
  /** The size of the data and the metadata of all events, in bytes. */
  size: number;
}

/** Checks and serialises the events of an append, for every adapter. Throws `RangeError`, `TypeError`, `UnknownEvent`. */
export function prepare(catalogue: EventCatalogue, stream: string, events: NewEvent[]): Prepared {
  checkName(stream);
  if (events.length < 1 || events.length > EVENTS_MAX)
    throw new RangeError(`an append takes 1 to ${EVENTS_MAX} events, not ${events.length}`);
  const serialised = events.map((event) => serialise(catalogue, event));
  const size = serialised.reduce((sum, { data, metadata }) => sum + Buffer.byteLength(data) + Buffer.byteLength(metadata), 0);
  if (size > BYTES_MAX) throw new RangeError(`an append takes ${BYTES_MAX} bytes of data and metadata, not ${size}`);
  if (new Set(serialised.map(({ id }) => id)).size < events.length) throw new RangeError('two events of an append have the same id');
  return { events: serialised, size };
}

function serialise(catalogue: EventCatalogue, { id, type, schemaVersion, data, metadata }: NewEvent): SerialisedEvent {
  const current = catalogue.versionOf(type);
  if (schemaVersion !== current) throw new RangeError(`${type} is written in version ${current}, not ${schemaVersion}`);
  if (!/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(id)) throw new RangeError(`${JSON.stringify(id)} is not a UUID`);
  return {
    id: id.toLowerCase(),
    type,
    schemaVersion,
    data: storedJson(data),
    metadata: storedJson({ ...metadata, actor: { ...metadata.actor } }),
  };
}

/** Returns the expected revision as a number: -1 if the stream must not exist. Throws `RangeError`. */
export function revisionOf(expected: ExpectedRevision): number {
  if (expected === 'no_stream') return -1;
  if (Number.isSafeInteger(expected) && expected >= 0) return expected;
  throw new RangeError(`${String(expected)} is not a revision`);
}

/** Throws `RangeError` if the text is not the name of a stream. */
export function checkName(stream: string): void {
  if (!/^[a-zA-Z][a-zA-Z0-9]*-[\x21-\x7e]{1,200}$/.test(stream))
    throw new RangeError(`${JSON.stringify(stream)} is not the name of a stream`);
}

/** Throws `RangeError` if the stream is not of the class `log`, or the bound is not a positive integer. */
export function checkTrimmable(stream: string, bound: number): void {
  if (!stream.startsWith('log-')) throw new RangeError(`${stream} is not of the class log: core events are kept forever`);
  if (!(Number.isSafeInteger(bound) && bound > 0)) throw new RangeError(`${bound} is not a valid bound of a retention`);
}
