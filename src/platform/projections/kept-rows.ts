import { LRUCache } from 'lru-cache';

import type { Row } from './fold.ts';

/** The bound on the rows that one table keeps, bytes of their JSON. */
const MAX_BYTES = 4 * 1024 * 1024;
/** The memory that an entry takes beside its row, bytes. */
const ENTRY_BYTES = 200;

/**
 * The rows of a table that its only writer wrote last, so that it need not read them before it changes them again. The one who holds them
 * writes the table under a lease; whoever takes the lease over begins with none.
 */
export class KeptRows {
  private readonly rows = new LRUCache<string, Row>({ maxSize: MAX_BYTES });

  get(key: string): Row | undefined {
    return this.rows.get(key);
  }

  /** The rows as they were committed, each with its JSON, and the keys of those that were removed. */
  committed(written: readonly Row[], jsons: readonly string[], key: string, removed: readonly string[]): void {
    for (const gone of removed) this.rows.delete(gone);
    for (const [index, row] of written.entries())
      this.rows.set(row[key] as string, row, { size: (jsons[index] as string).length + ENTRY_BYTES });
  }

  /** Forgets all rows: to be called after a write whose outcome is not known. */
  forget(): void {
    this.rows.clear();
  }
}
