import { LRUCache } from 'lru-cache';

import type { Row } from './fold.ts';

/** The bound on the rows that are kept for one table, in bytes of their JSON. */
const BYTES_MAX = 4 * 1024 * 1024;
/** The memory that an entry takes besides its row, in bytes. */
const ENTRY_BYTES = 200;

/**
 * The rows that a table's only writer wrote last, kept so that it need not read them before it changes them again. The writer holds a
 * lease; the next holder of the lease begins with none.
 */
export class KeptRows {
  private readonly rows = new LRUCache<string, Row>({ maxSize: BYTES_MAX });

  get(key: string): Row | undefined {
    return this.rows.get(key);
  }

  /** Keeps the rows as they were committed, each with its JSON, and forgets the rows with the removed keys. */
  committed(written: readonly Row[], jsons: readonly string[], key: string, removed: readonly string[]): void {
    for (const gone of removed) this.rows.delete(gone);
    for (const [index, row] of written.entries())
      this.rows.set(row[key] as string, row, { size: (jsons[index] as string).length + ENTRY_BYTES });
  }

  /** Forgets all rows. It must be called after a write whose outcome is not known. */
  forget(): void {
    this.rows.clear();
  }
}
