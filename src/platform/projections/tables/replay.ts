import { categoryOf, type StoredEvent } from '../../event-store/event-store.ts';
import { fold, type Row } from './fold.ts';
import type { Projection } from '../projection.ts';

/** Holds in memory the rows that a projection's table would have after exactly the events that it was given. */
export class Replay<Columns extends object> {
  private readonly projection: Projection;
  private readonly rows = new Map<string, Row>();

  constructor(projection: Projection<Columns>) {
    this.projection = projection as unknown as Projection;
  }

  /** Puts a row as it is before the first event. */
  put(key: string, row: Row): void {
    this.rows.set(key, Object.freeze(row));
  }

  /** Takes in the next event, in order. Events that the projection's filter excludes change nothing. Throws what `project` throws. */
  take(event: StoredEvent): void {
    const { categories, types } = this.projection.filter;
    if (categories?.includes(categoryOf(event.stream)) === false || types?.includes(event.type) === false) return;
    const { written, removed, failure } = fold(this.projection, [event], this.rows);
    if (failure !== null) throw failure.error;
    for (const row of written) this.rows.set(row[this.projection.table.key] as string, row);
    for (const key of removed) this.rows.delete(key);
  }

  get(key: string): Columns | undefined {
    return this.rows.get(key) as Columns | undefined;
  }
}
