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
  /** Grows when `project` or the columns change: a program then fills a table of its own, beside the one of the older version. */
  version: number;
  filter: EventFilter;
  table: ProjectionTable;
  /**
   * The keys of the rows that the event reads, changes or removes; none where it only adds rows. A row that is set without being named here is
   * new, and no later event names it: a fold of the whole log writes it away at once.
   */
  keys(event: StoredEvent): string[];
  /**
   * Where events of several streams touch the same rows: what those have in common. Absent: rows of one stream are touched by that stream
   * alone. Rows that do not fit into memory are folded one partition after the other.
   */
  partition?(event: StoredEvent): string;
  project(event: StoredEvent, rows: Rows<Row>): void;
}

/**
 * The table in which this program's version of the read model stands, `agents_v2`. Programs of other versions have tables of their own, so SQL names it
 * by this; entities bear the plain name of the table, and `Projections.register` gives them this one.
 */
export function tableOf({ table, version }: { table: { name: string }; version: number }): string {
  return `${table.name}_v${version}`;
}

export interface ProjectionTable {
  /** Without its version. */
  name: string;
  /** The column that is the primary key: text, or bigint, which stands in rows as text. */
  key: string;
  /** Column name → PostgreSQL type with constraints; the key column included. Names are those of the row's members. */
  columns: Record<string, string>;
  /** Index name suffix → the text after `on <table>`: `{ by_account: '(account_id, created_at desc)' }`. */
  indexes: Record<string, string>;
  /** Rows whose time is so many days ago are removed by whoever owns the table; a comparison with the log leaves them out. */
  expires?: { column: string; days: number };
  /** Rows whose column is not among these (a `select`) are removed by whoever owns the table; a comparison with the log leaves them out. */
  belongs?: { column: string; to: string };
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
  /** How far each has come: whether this program is ready, and why not. */
  abstract progress(): Promise<ReadModelProgress[]>;
}

export interface ReadModelProgress {
  name: string;
  /** False until it is filled and has caught up once since the start, and where it met an event that only a newer program can read. */
  ready: boolean;
  /** False where it shows nothing, or nothing new. */
  serving: boolean;
  /** What is the matter; null where all is well. */
  reason: string | null;
}
