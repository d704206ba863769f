import { matches, type StoredEvent } from '../../event-store/event-store.ts';
import { fold, type Row } from './fold.ts';
import { asRead, type ReadRow, type WrittenRow } from '../../../postgres/database/table.ts';
import type { Projection, ProjectionTable } from '../projection.ts';

/** Holds in memory the rows that a projection's table would have after exactly the events that were applied to it. */
export class Replay<T extends ProjectionTable> {
  private readonly rows = new Map<string, Row>();

  constructor(private readonly projection: Projection<T>) {}

  /** Applies the next event, in order. Events that the projection's filter excludes change nothing. Throws what `project` throws. */
  apply(event: StoredEvent): void {
    if (!matches(this.projection.filter)(event)) return;
    const { written, removed, failure } = fold(this.projection, [event], this.rows);
    if (failure !== null) throw failure.error;
    for (const row of written) this.rows.set(row[this.projection.table.key] as string, row);
    for (const key of removed) this.rows.delete(key);
  }

  /** Returns the row as a query would read it. */
  read(key: string): ReadRow<T> | undefined {
    const row = this.rows.get(key) as WrittenRow<T> | undefined;
    return row && asRead(this.projection.table, row);
  }
}
