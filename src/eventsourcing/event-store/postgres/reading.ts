import type pg from 'pg';
import type { EventCatalogue } from '../event-catalogue.ts';
import type { EventMetadata, EventClass, EventFilter, Lag, Position, StoredEvent } from '../event-store.ts';
import type { JsonObject } from '../event-definition.ts';
import type { Batch } from '../events-up-to.ts';
import { runIdempotent } from './sending.ts';

export const tables: Record<EventClass, string> = { core: 'public.es_event', log: 'public.es_log_event' };

const EVENTS_MAX = 1_000;
const BYTES_MAX = 8 * 1024 * 1024;
/** The most events that one statement reads in search of those that pass a filter. */
const SCANNED_EVENTS_MAX = 5_000;
const STREAM_PAGE_EVENTS = 500;

const columns = 'position, stream, version, id, type, schema_version, data, metadata, size, at';

type Row = [
  position: string,
  stream: string,
  version: string,
  id: string,
  type: string,
  schemaVersion: number,
  data: JsonObject,
  metadata: EventMetadata,
  size: number,
  at: Date,
];

/** A row, followed by another value of the statement. */
type SearchedRow = [...event: Row, other: string];

/** Returns the port's form of a position, which is ordered as text. */
export function positionOf(number: string): Position {
  return number.padStart(20, '0');
}

export function numberOf(position: Position): string {
  if (!/^\d{20}$/.test(position)) throw new RangeError(`${JSON.stringify(position)} is not a position of this event store`);
  return BigInt(position).toString();
}

/** Reads events, at most 1 000 at a time, and no further one once 8 MiB are reached; returns them in their current version. */
export class EventReader {
  constructor(
    private readonly pool: pg.Pool,
    private readonly catalogue: EventCatalogue,
  ) {}

  async head(eventClass: EventClass): Promise<Position> {
    const text = `select position from ${tables[eventClass]} order by position desc limit 1`;
    const rows = await runIdempotent<[string]>(this.pool, { name: `head ${eventClass}`, text, values: [] });
    return positionOf(rows[0]?.[0] ?? '0');
  }

  /** Returns the number of events after the position without counting them, since positions have no gaps. */
  async lag(after: Position, eventClass: EventClass): Promise<Lag> {
    const text = `
      select (select position from ${tables[eventClass]} order by position desc limit 1) - first.position + 1, first.at
        from (select position, at from ${tables[eventClass]} where position > $1 order by position limit 1) first`;
    const rows = await runIdempotent<[string, Date]>(this.pool, { name: `lag ${eventClass}`, text, values: [numberOf(after)] });
    return { events: Number(rows[0]?.[0] ?? 0), since: rows[0]?.[1].toISOString() ?? null };
  }

  /** Finds the position by bisection: times grow with positions, unless the server's clock was set back. */
  async before(time: Date, eventClass: EventClass): Promise<Position> {
    const text = `select position, at from ${tables[eventClass]} where position > $1 order by position limit 1`;
    let low = 0n;
    let high = BigInt(numberOf(await this.head(eventClass)));
    while (low < high) {
      const middle = (low + high) / 2n;
      const [found] = await runIdempotent<[string, Date]>(this.pool, { name: `after ${eventClass}`, text, values: [middle.toString()] });
      if (found !== undefined && found[1] < time) low = BigInt(found[0]);
      else high = middle;
    }
    return positionOf(low.toString());
  }

  /** Returns the events after the position that pass the filter, with their size in bytes. */
  batch(after: Position, { eventClass, categories, types }: EventFilter): Promise<Batch & { size: number }> {
    if (categories === undefined && types === undefined) return this.page(after, eventClass);
    return this.search(after, eventClass, [categories ?? null, types ?? null]);
  }

  private async page(after: Position, eventClass: EventClass): Promise<Batch & { size: number }> {
    const text = `
      select ${columns} from (
        select *, sum(size) over (order by position rows unbounded preceding) - size as before
          from ${tables[eventClass]} where position > $1 order by position limit ${EVENTS_MAX}) page
       where before < ${BYTES_MAX} order by position`;
    const rows = await runIdempotent<Row>(this.pool, { name: `batch ${eventClass} all`, text, values: [numberOf(after)] });
    const last = rows.at(-1);
    return { events: rows.map((row) => this.event(row)), upTo: last === undefined ? after : positionOf(last[0]), size: sizeOf(rows) };
  }

  private async search(after: Position, eventClass: EventClass, filter: readonly unknown[]): Promise<Batch & { size: number }> {
    // One statement bounds both the events that are read and those that are returned, so `up_to` and the rows come from one snapshot.
    const text = `
      with bound as materialized (
        select greatest($1::bigint, coalesce(
          (select position from ${tables[eventClass]} where position > $1 order by position offset ${SCANNED_EVENTS_MAX - 1} limit 1),
          (select position from ${tables[eventClass]} order by position desc limit 1), 0)) as up_to)
      select ${columns}, b.up_to from bound b left join lateral (
        select * from (
          select *, sum(size) over (order by position rows unbounded preceding) - size as before from (
            select * from ${tables[eventClass]} e
             where e.position > $1 and e.position <= b.up_to
               and ($2::text[] is null or split_part(e.stream, '-', 1) = any ($2)) and ($3::text[] is null or e.type = any ($3))
             order by e.position limit ${EVENTS_MAX}) page) sized
         where before < ${BYTES_MAX}) found on true
       order by position`;
    const query = { name: `batch ${eventClass} filtered`, text, values: [numberOf(after), ...filter] };
    const rows = await runIdempotent<SearchedRow>(this.pool, query);
    const end = rows[0]?.[10] ?? numberOf(after);
    // If no event passed, there is one row of nulls.
    const found = rows.filter(([position]) => position !== null);
    const last = found.at(-1);
    const size = sizeOf(found);
    const isCut = last !== undefined && (found.length === EVENTS_MAX || size >= BYTES_MAX);
    return { events: found.map((row) => this.event(row)), upTo: positionOf(isCut ? last[0] : end), size };
  }

  /** Reads the events at the positions, in the order of the positions. */
  async *at(positions: readonly Position[]): AsyncGenerator<StoredEvent> {
    const text = `
      select ${columns}, place from (
        select e.*, place, sum(size) over (order by place rows unbounded preceding) - size as before
          from unnest($1::bigint[]) with ordinality asked (asked_position, place) join ${tables.core} e on e.position = asked_position) sized
       where before < ${BYTES_MAX} order by place`;
    for (let left = positions.map(numberOf); left.length > 0;) {
      const rows = await runIdempotent<SearchedRow>(this.pool, { name: 'at positions', text, values: [left] });
      for (const row of rows) yield this.event(row);
      if (sizeOf(rows) < BYTES_MAX) return;
      left = left.slice(Number(rows.at(-1)?.at(-1)));
    }
  }

  /** Reads the stream from the revision `from` on, at most `limit` events. */
  async *stream(table: string, stream: string, from: number, backwards: boolean, limit: number): AsyncGenerator<StoredEvent> {
    const [reaches, order] = backwards ? ['<=', 'desc'] : ['>=', 'asc'];
    const text = `
      select ${columns} from (
        select *, sum(size) over (order by version ${order} rows unbounded preceding) - size as before from (
          select * from ${table} e where e.stream = $1 and e.version ${reaches} $2 order by e.version ${order} limit $3) page) sized
       where before < ${BYTES_MAX} order by version ${order}`;
    let left = limit;
    for (let next = from; left > 0 && next >= 0;) {
      const wanted = Math.min(left, STREAM_PAGE_EVENTS);
      const rows = await runIdempotent<Row>(this.pool, { name: `stream ${table} ${order}`, text, values: [stream, next, wanted] });
      for (const row of rows) yield this.event(row);
      if (rows.length < wanted && sizeOf(rows) < BYTES_MAX) return;
      left -= rows.length;
      next = Number(rows.at(-1)?.[2]) + (backwards ? -1 : 1);
    }
  }

  /** Members after those of a row are ignored. */
  private event([position, stream, version, id, type, schemaVersion, data, metadata, , at]: Row | SearchedRow): StoredEvent {
    const revision = Number(version);
    return this.catalogue.upcast({
      id,
      type,
      schemaVersion,
      data,
      metadata,
      stream,
      revision,
      position: positionOf(position),
      at: at.toISOString(),
    });
  }
}

function sizeOf(rows: readonly (Row | SearchedRow)[]): number {
  return rows.reduce((sum, row) => sum + row[8], 0);
}
