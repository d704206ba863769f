/**
 * Reads the log by COPY in binary form, about three times as fast as by rows.
 *
 * Owns: the decoding of rows, and its connections while it reads. Does not own the protocol of COPY (`copyOut`).
 *
 * K1  Values are decoded only when they are read, so an event's members may not be its own properties: it is copied by `toJSON`.
 * K2  A statement reads a bounded range, because a long one would delay the server's vacuum by its snapshot.
 * K3  A connection that was left early is closed, since rows may still be in transit on it.
 */
import pg from 'pg';
import { copyOut, type RowBatch } from '../../../postgres/database/copy.ts';
import { UnknownEvent, type EventCatalogue } from '../event-catalogue.ts';
import type { JsonObject } from '../event-definition.ts';
import {
  EventStoreUnavailable,
  type EventFilter,
  type EventMetadata,
  type EventsUpTo,
  type Position,
  type StoredEvent,
} from '../event-store.ts';
import { numberOf, positionOf, tables } from './reading.ts';

/** K2: The most positions that one statement reads. */
const RANGE_MAX = 100_000n;
/** The number of events that are decoded at a time. Earlier ones are garbage by then, and still cheap to collect. */
const EVENTS_AT_ONCE = 200;
/** The signature, flags and extension length that a binary COPY begins with. */
const HEADER_BYTES = 19;
/** The first byte of `{}`, the data of many events. */
const OPENING_BRACE = 0x7b;
/** The time from the Unix epoch to PostgreSQL's, in ms. */
const postgresEpoch = Date.UTC(2000, 0, 1);

const columns = 'position, stream, version, id, type, schema_version, data, metadata, at';

/** Reads ranges of the log, and long streams. See K1 to K3. */
export class BulkReader {
  private readonly types = new Names();

  constructor(
    private readonly pool: pg.Pool,
    private readonly catalogue: EventCatalogue,
  ) {}

  /** Reads the events after the position, up to and including the end. */
  async *read(after: Position, end: Position, filter: EventFilter): AsyncGenerator<EventsUpTo> {
    const last = BigInt(numberOf(end));
    for (let from = BigInt(numberOf(after)); from < last;) {
      const to = from + RANGE_MAX < last ? from + RANGE_MAX : last;
      for await (const events of this.events(rangeOf(from, to, filter))) {
        const position = events.at(-1)?.position;
        if (position !== undefined) yield { events, upTo: position };
      }
      from = to;
      yield { events: [], upTo: positionOf(to.toString()) };
    }
  }

  /** Reads the stream's events from that revision on. Throws `EventStoreUnavailable`. */
  async *stream(table: string, stream: string, from: number): AsyncGenerator<StoredEvent[]> {
    const rows = `select ${columns} from ${table} where stream = ${pg.escapeLiteral(stream)} and version >= ${from} order by version`;
    try {
      yield* this.events(rows);
    } catch (error) {
      throw error instanceof UnknownEvent ? error : new EventStoreUnavailable(error);
    }
  }

  private async *events(select: string): AsyncGenerator<StoredEvent[]> {
    const client = await this.pool.connect();
    let whole = false;
    try {
      let isFirst = true;
      for await (const slab of copyOut(client, `copy (${select}) to stdout (format binary)`)) {
        yield* this.decoded(slab, isFirst ? HEADER_BYTES : 0);
        isFirst = false;
      }
      whole = true;
    } finally {
      // K3
      client.release(!whole);
    }
  }

  private *decoded({ bytes, starts, ends }: RowBatch, skip: number): Generator<StoredEvent[]> {
    let events: StoredEvent[] = [];
    for (const [index, end] of ends.entries()) {
      const start = (starts[index] as number) + (index === 0 ? skip : 0);
      // The trailer of a COPY has a negative number of columns.
      if (start + 2 > end || bytes.readInt16BE(start) < 0) continue;
      const event = new BulkEvent(bytes, start + 2, this.types);
      const isCurrent = this.catalogue.versionOf(event.type) === event.schemaVersion;
      events.push(isCurrent ? event : this.catalogue.upcast(event.toJSON()));
      if (events.length < EVENTS_AT_ONCE) continue;
      yield events;
      events = [];
    }
    if (events.length > 0) yield events;
  }
}

function rangeOf(from: bigint, to: bigint, { eventClass, categories, types }: EventFilter): string {
  const list = (values: readonly string[]) => `array[${values.map((value) => pg.escapeLiteral(value)).join(', ')}]::text[]`;
  const conditions = [
    `position > ${from} and position <= ${to}`,
    ...(categories === undefined ? [] : [`split_part(stream, '-', 1) = any (${list(categories)})`]),
    ...(types === undefined ? [] : [`type = any (${list(types)})`]),
  ];
  return `select ${columns} from ${tables[eventClass]} where ${conditions.join(' and ')} order by position`;
}

/** The last second that was formatted. Most times differ from it only in their last three digits. */
let lastSecond = { number: NaN, text: '' };

function isoTime(milliseconds: number): string {
  const second = Math.floor(milliseconds / 1_000);
  if (second !== lastSecond.number) lastSecond = { number: second, text: new Date(second * 1_000).toISOString().slice(0, 20) };
  return `${lastSecond.text}${String(milliseconds - second * 1_000).padStart(3, '0')}Z`;
}

/** Decodes type names. A log has few of them, so each is kept as one string, which is allocated and hashed once. */
class Names {
  private readonly byLength: { bytes: Buffer; name: string }[][] = [];

  decode(bytes: Buffer, start: number, end: number): string {
    const known = (this.byLength[end - start] ??= []);
    for (const each of known) if (isAt(bytes, start, each.bytes)) return each.name;
    const own = Buffer.from(bytes.subarray(start, end));
    const name = own.toString('latin1');
    known.push({ bytes: own, name });
    return name;
  }
}

function isAt(bytes: Buffer, start: number, wanted: Buffer): boolean {
  for (let at = 0; at < wanted.length; at += 1) if (bytes[start + at] !== wanted[at]) return false;
  return true;
}

/** One row of a binary COPY, whose values are decoded when they are read. */
class BulkEvent implements StoredEvent {
  readonly stream: string;
  readonly type: string;
  readonly schemaVersion: number;
  readonly revision: number;
  private readonly bytes: Buffer;
  private readonly idAt: number;
  private readonly positionAt: number;
  private readonly dataAt: number;
  private decodedData: JsonObject | undefined;
  private decodedMetadata: EventMetadata | undefined;
  private atText: string | undefined;

  constructor(bytes: Buffer, start: number, types: Names) {
    this.bytes = bytes;
    // Each value follows its length of 4 bytes.
    this.positionAt = start + 4;
    let at = start + 12;
    const streamEnd = at + 4 + bytes.readInt32BE(at);
    this.stream = bytes.toString('latin1', at + 4, streamEnd);
    this.revision = int64(bytes, streamEnd + 4);
    this.idAt = streamEnd + 16;
    at = this.idAt + 16;
    const typeEnd = at + 4 + bytes.readInt32BE(at);
    this.type = types.decode(bytes, at + 4, typeEnd);
    this.schemaVersion = bytes.readInt16BE(typeEnd + 4);
    this.dataAt = typeEnd + 6;
  }

  get position(): Position {
    return positionOf(String(int64(this.bytes, this.positionAt)));
  }

  get id(): string {
    const hex = this.bytes.toString('hex', this.idAt, this.idAt + 16);
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
  }

  get data(): JsonObject {
    return (this.decodedData ??= this.json(this.dataAt) as JsonObject);
  }

  get metadata(): EventMetadata {
    return (this.decodedMetadata ??= this.json(this.metadataAt()) as EventMetadata);
  }

  get at(): string {
    return (this.atText ??= this.time());
  }

  toJSON(): StoredEvent {
    const { id, type, schemaVersion, data, metadata, stream, revision, position, at } = this;
    return { id, type, schemaVersion, data, metadata, stream, revision, position, at };
  }

  private time(): string {
    const metadataAt = this.metadataAt();
    const at = metadataAt + 4 + this.bytes.readInt32BE(metadataAt) + 4;
    return isoTime(postgresEpoch + Math.floor(int64(this.bytes, at) / 1_000));
  }

  private metadataAt(): number {
    return this.dataAt + 4 + this.bytes.readInt32BE(this.dataAt);
  }

  private json(at: number): unknown {
    const length = this.bytes.readInt32BE(at);
    if (length === 2 && this.bytes[at + 4] === OPENING_BRACE) return {};
    return JSON.parse(this.bytes.toString('utf8', at + 4, at + 4 + length));
  }
}

/** Reads a 64-bit integer; the result is exact up to 2^53. */
function int64(bytes: Buffer, at: number): number {
  return bytes.readInt32BE(at) * 4_294_967_296 + bytes.readUInt32BE(at + 4);
}
