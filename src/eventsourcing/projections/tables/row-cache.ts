import { LRUCache } from 'lru-cache';

import type { Row } from './fold.ts';

/** The bound on the cached rows of one table, in bytes of their JSON. */
const BYTES_MAX = 4 * 1024 * 1024;
/** The memory that an entry takes besides its row, in bytes. */
const ENTRY_BYTES = 200;

/**
 * The rows that a table's only writer wrote last, cached so that it need not read them before it changes them again. The writer holds a
 * lease; the next holder of the lease begins with an empty cache.
 */
export class RowCache {
  private readonly rows = new LRUCache<string, Row>({ maxSize: BYTES_MAX });

  get(key: string): Row | undefined {
    return this.rows.get(key);
  }

  /** Caches the rows as they were committed, each with its JSON, and evicts those with the removed keys. */
  update(written: readonly Row[], jsons: readonly string[], key: string, removed: readonly string[]): void {
    for (const gone of removed) this.rows.delete(gone);
    for (const [index, row] of written.entries())
      this.rows.set(row[key] as string, row, { size: (jsons[index] as string).length + ENTRY_BYTES });
  }

  /** Evicts all rows. Call it after a write with an unknown outcome. */
  clear(): void {
    this.rows.clear();
  }
}
