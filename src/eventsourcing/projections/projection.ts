import type { Table, WrittenRow } from '../../postgres/database/table.ts';
import type { EventFilter, StoredEvent } from '../event-store/event-store.ts';

/** The rows that a projection may touch while it takes in one event: those of `keys(event)` are loaded, and any may be set. */
export interface Rows<Row> {
  get(key: string): Row | undefined;
  set(key: string, row: Row): void;
  delete(key: string): void;
}

/**
 * A read model as a pure fold of the log into the rows of one table. The runner loads rows, folds a batch in memory and writes rows and
 * checkpoint in one transaction; a rebuild folds with the same function into a new table. A projection never acts.
 */
export interface Projection<T extends ProjectionTable = ProjectionTable> {
  /** The name of the read model, and of its table without the version. */
  name: string;
  /** The version grows when `project` or the columns change. A program then fills a table of its own, beside that of the older version. */
  version: number;
  filter: EventFilter;
  /**
   * Returns false for an event that passes the filter and changes no row, so that a live read model writes nothing for it. If it is absent,
   * every event that passes the filter counts.
   */
  concerns?: (event: StoredEvent) => boolean;
  table: T;
  /**
   * Returns the keys of the rows that the event reads, changes or removes, and none if it only adds rows. A row that is set without being
   * named here must be new, and no later event may name it: a fold of the whole log writes it out at once.
   */
  keys(event: StoredEvent): string[];
  /**
   * Returns the partition of the event: events that touch the same rows have the same one. If it is absent, the events of each stream touch
   * rows of their own. Rows that do not fit into memory are folded one partition after the other.
   */
  partition?(event: StoredEvent): string;
  project(event: StoredEvent, rows: Rows<WrittenRow<T>>): void;
}

/**
 * Returns the name of the table that holds this program's version of the read model, such as `agents_v2`. SQL uses this name, since
 * programs of other versions have tables of their own.
 */
export function tableOf({ name, version }: { name: string; version: number }): string {
  return `${name}_v${version}`;
}

/** The table of a read model. Declare it `as const satisfies ProjectionTable`, so that its columns give the types of its rows. */
export interface ProjectionTable extends Table {
  /** Index name suffix → the text after `on <table>`: `{ by_account: '(account_id, created_at desc)' }`. */
  indexes: Record<string, string>;
  /** The owner of the table removes rows whose time is more than so many days ago; a comparison with the log leaves them out. */
  expires?: { column: string; days: number };
  /**
   * The owner of the table removes rows whose column is not in the result of `to` (a `select`); a comparison with the log leaves them out.
   */
  belongs?: { column: string; to: string };
}

/** Tells how far the read models have come. */
export abstract class ReadModels {
  /** Returns the filter of the events that the projection takes in. */
  abstract filterOf(projection: string): EventFilter;
  /**
   * Resolves when the projection has taken in everything up to the position. Throws Refusal `read_model_behind` after the timeout (ms, by
   * default 5,000).
   */
  abstract waitFor(projection: string, position: string, timeoutMs?: number): Promise<void>;
  /**
   * Does as `waitFor`, but does not throw if the projection has stopped or is too far behind. It is for answers that are possible without
   * it.
   */
  abstract waitIfRunning(projection: string, position: string): Promise<void>;
  /** Throws Refusal `read_model_behind` while rows are missing that existed before, because the table was lost and is being filled. */
  abstract waitUntilFilled(projection: string): Promise<void>;
  /** Returns how far each read model has come: whether this program is ready, and if not, why. */
  abstract progress(): Promise<ReadModelProgress[]>;
}

export interface ReadModelProgress {
  name: string;
  /**
   * The value is false until it is filled and has caught up once since the start, and after an event that only a newer program can read.
   */
  ready: boolean;
  /** The value is false while it has no rows to show, and after it stopped at an event that it can't take in. */
  serving: boolean;
  /** The reason why it is not ready or not serving; null if it is both. */
  reason: string | null;
}
