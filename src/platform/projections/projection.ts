import type { EventFilter, StoredEvent } from '../event-store/event-store.ts';

/** The rows a projection may touch while it takes in one event: those of `keys(event)` are loaded, any may be set. */
export interface Rows<Row> {
  get(key: string): Row | undefined;
  set(key: string, row: Row): void;
  delete(key: string): void;
}

/**
 * A read model as a pure fold of the log into the rows of one table. The runner loads, folds a batch in memory and
 * writes rows and checkpoint in one transaction; a rebuild folds the same function into a new table. It never acts.
 */
export interface Projection<Row extends object = Record<string, unknown>> {
  name: string;
  /** Grows when `project` or the columns change; a stored older version means: rebuild. */
  version: number;
  filter: EventFilter;
  table: ProjectionTable;
  /** The keys of the rows that the event reads or changes; none where it only adds rows. */
  keys(event: StoredEvent): string[];
  /**
   * Where events of several streams touch the same rows: what those have in common. Absent: rows of one stream are touched by that stream
   * alone. Rows that do not fit into memory are folded one partition after the other.
   */
  partition?(event: StoredEvent): string;
  project(event: StoredEvent, rows: Rows<Row>): void;
}

export interface ProjectionTable {
  name: string;
  /** The column that is the primary key: text, or bigint, which stands in rows as text. */
  key: string;
  /** Column name → PostgreSQL type with constraints; the key column included. Names are those of the row's members. */
  columns: Record<string, string>;
  /** Index name suffix → the text after `on <table>`: `{ by_account: '(account_id, created_at desc)' }`. */
  indexes: Record<string, string>;
  /** Rows whose time is so many days ago are removed by whoever owns the table; a comparison with the log leaves them out. */
  expires?: { column: string; days: number };
}

/** Tells how far read models have come. */
export abstract class ReadModels {
  /** The events that the projection takes in. */
  abstract filterOf(projection: string): EventFilter;
  /** Resolves when the projection has taken in everything up to the position; throws Refusal `read_model_behind` after the time-out (ms, 5 000 unless told). */
  abstract reached(projection: string, position: string, timeoutMs?: number): Promise<void>;
  /** As `reached`, but does not throw where the projection stopped, or is too far behind: for what may be answered without it. */
  abstract reachedIfPossible(projection: string, position: string): Promise<void>;
  /** Throws Refusal `read_model_behind` while rows are missing that were there to be read: the table was lost, and is being filled. */
  abstract whole(projection: string): Promise<void>;
  /** The read models of which that is so, and those that stopped. */
  abstract incomplete(): Promise<string[]>;
}
