import type { Database } from '../../../postgres/database/database.ts';
import type { Position, StoredEvent } from '../../event-store/event-store.ts';
import { fold, keysOf, type Row } from './fold.ts';
import { RowCache } from './row-cache.ts';
import type { Projection } from '../projection.ts';
import { loadStatement, writeStatement } from './projection-sql.ts';

/** The number of events that one transaction applies. */
const BATCH = 500;

/** The lease has another holder, so the writes of this one are refused. */
export class LeaseLost extends Error {
  constructor(consumer: string) {
    super(`another process consumes ${consumer} now`);
    this.name = 'LeaseLost';
  }
}

/** An event that the projection can never apply, because its code throws or PostgreSQL refuses its rows. */
export class PoisonEvent extends Error {
  constructor(
    readonly event: StoredEvent,
    cause: unknown,
  ) {
    super(`${event.type} at ${event.position}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
    this.name = 'PoisonEvent';
  }
}

/** One physical table of a projection and its checkpoint, as written by the holder of one lease. */
export class ReadModelTable {
  private readonly loadSql: { name: string; text: string };
  private readonly writeSql: { name: string; text: string };
  /** Only the holder of the lease writes the table, so the table holds what it wrote. */
  private readonly cache = new RowCache();

  constructor(
    private readonly database: Database,
    private readonly projection: Projection,
    readonly physical: string,
    private readonly fencingToken: string,
    /** The stored position of the checkpoint. */
    public position: Position,
  ) {
    const { table } = projection;
    this.loadSql = { name: `load ${physical}`, text: loadStatement(table, physical) };
    this.writeSql = { name: `write ${physical}`, text: writeStatement(table, physical) };
  }

  /**
   * Applies the events, in order and `atOnce` at a time, and moves the checkpoint to `upTo`. Throws `PoisonEvent` (after all events before
   * that one were applied), `LeaseLost`, or PostgreSQL's error.
   */
  async write(events: readonly StoredEvent[], upTo: Position, atOnce = BATCH): Promise<void> {
    for (let from = 0; from < events.length; from += atOnce) {
      const batch = events.slice(from, from + atOnce);
      const isLast = from + atOnce >= events.length;
      await this.writeBatch(batch, isLast ? upTo : (batch.at(-1) as StoredEvent).position);
    }
    if (events.length === 0 && upTo !== this.position) await this.commit([], [], upTo);
  }

  private async writeBatch(events: readonly StoredEvent[], upTo: Position): Promise<void> {
    const { written, removed, failure } = fold(this.projection, events, await this.rowsFor(events));
    const taken = failure === null ? events : events.slice(0, events.indexOf(failure.event));
    const last = taken.at(-1);
    try {
      if (last !== undefined) await this.commit(written, removed, failure === null ? upTo : last.position);
    } catch (error) {
      if (last === undefined || !isRefusedRow(error)) throw error;
      if (events.length === 1) throw new PoisonEvent(events[0] as StoredEvent, error);
      // The events are applied one by one, so that the good ones are stored and the bad one is identified.
      for (const event of taken) await this.writeBatch([event], event.position);
      if (failure === null) await this.write([], upTo);
    }
    if (failure !== null) throw new PoisonEvent(failure.event, failure.error);
  }

  private async rowsFor(events: readonly StoredEvent[]): Promise<Map<string, Row>> {
    const rowsByKey = new Map<string, Row>();
    const missing: string[] = [];
    for (const key of new Set(keysOf(this.projection, events).keys.flat())) {
      const row = this.cache.get(key);
      if (row === undefined) missing.push(key);
      else rowsByKey.set(key, row);
    }
    if (missing.length > 0) for (const [key, row] of await this.stored(missing, events)) rowsByKey.set(key, row);
    return rowsByKey;
  }

  private async stored(keys: string[], events: readonly StoredEvent[]): Promise<[string, Row][]> {
    const { rows } = await this.database.pool.query<{ row: Row }>({ ...this.loadSql, values: [keys] }).catch((error: unknown) => {
      throw isRefusedRow(error) ? new PoisonEvent(events[0] as StoredEvent, error) : error;
    });
    const { key } = this.projection.table;
    return rows.map(({ row }) => [row[key] as string, Object.freeze(row)]);
  }

  private async commit(written: Row[], removed: string[], upTo: Position): Promise<void> {
    const jsons = written.map((row) => JSON.stringify(row));
    const values = [upTo, this.position, this.fencingToken, `[${jsons.join(',')}]`, removed];
    try {
      const { rows } = await this.database.pool.query<{ moved: number }>({ ...this.writeSql, values });
      if (rows[0]?.moved !== 1) throw new LeaseLost(this.physical);
    } catch (error) {
      this.cache.clear();
      throw error;
    }
    this.cache.update(written, jsons, this.projection.table.key, removed);
    this.position = upTo;
  }
}

/**
 * Returns whether PostgreSQL refused the row, by a data exception, a broken constraint, or a missing column: a retry would fail again. A
 * missing table (42P01) does not count, since it is created again.
 */
export function isRefusedRow(error: unknown): boolean {
  return /^(22|23|42(?!P01))/.test((error as { code?: string }).code ?? '');
}
