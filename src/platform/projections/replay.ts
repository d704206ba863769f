import { categoryOf, type StoredEvent } from '../event-store/event-store.ts';
import { fold, type Row } from './fold.ts';
import type { Projection } from './projection.ts';

/** A projection's rows in memory, over the events that it is given: what its table would hold after them and no others. */
export class Replay<Columns extends object> {
  readonly #projection: Projection;
  readonly #rows = new Map<string, Row>();

  constructor(projection: Projection<Columns>) {
    this.#projection = projection as unknown as Projection;
  }

  /** A row as it stands before the first event. */
  put(key: string, row: Row): void {
    this.#rows.set(key, Object.freeze(row));
  }

  /** The next event, in order. Those that the projection's filter keeps out change nothing. Throws what `project` throws. */
  take(event: StoredEvent): void {
    const { categories, types } = this.#projection.filter;
    if (categories?.includes(categoryOf(event.stream)) === false || types?.includes(event.type) === false) return;
    const { written, removed, failure } = fold(this.#projection, [event], this.#rows);
    if (failure !== null) throw failure.error;
    for (const row of written) this.#rows.set(row[this.#projection.table.key] as string, row);
    for (const key of removed) this.#rows.delete(key);
  }

  get(key: string): Columns | undefined {
    return this.#rows.get(key) as Columns | undefined;
  }
}
