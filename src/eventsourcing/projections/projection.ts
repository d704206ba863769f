import type { Table, WrittenRow } from '../../postgres/database/table.ts';
import type { EventFilter, StoredEvent } from '../event-store/event-store.ts';

/** The rows that a projection may touch while it applies one event: those of `keys(event)` are loaded, and any row may be set. */
export interface Rows<Row> {
  get(key: string): Row | undefined;
  set(key: string, row: Row): void;
  delete(key: string): void;
}

/**
 * A read model as a pure fold of the log into the rows of one table. The runner loads rows, applies a batch in memory and writes rows and
 * checkpoint in one transaction; a rebuild applies the same function into a new table. A projection has no side effects.
 */
export interface Projection<T extends ProjectionTable = ProjectionTable> {
  /** The name of the read model, and of its table without the version. */
  name: string;
  /** The version grows when `project` or the columns change. The program then fills another table, beside that of the older version. */
  version: number;
  filter: EventFilter;
  /**
   * Returns false for an event that passes the filter and changes no row, so that nothing is written for it. Without this function every
   * event that passes the filter counts.
   */
  concerns?: (event: StoredEvent) => boolean;
  table: T;
  /**
   * Returns the keys of the rows that the event reads, changes or removes, and none if it only adds rows. A row that is set without being
   * named here must be new, and no later event may name it, because a rebuild writes it immediately.
   */
  keys(event: StoredEvent): string[];
  /**
   * Returns the partition of the event. Events that touch the same rows have the same partition. Without this function the events of each
   * stream touch rows of their own. Rows that do not fit into memory are folded one partition after the other.
   */
  partition?(event: StoredEvent): string;
  project(event: StoredEvent, rows: Rows<WrittenRow<T>>): void;
}

/**
 * Returns the name of the table with this program's version of the read model, such as `agents_v2`. SQL uses this name, since programs of
 * other versions have their own tables.
 */
export function tableOf({ name, version }: { name: string; version: number }): string {
  return `${name}_v${version}`;
}

/** The table of a read model. Declare it `as const satisfies ProjectionTable`, so that its columns give the types of its rows. */
export interface ProjectionTable extends Table {
  /** Index name suffix → the text after `on <table>`: `{ by_account: '(account_id, created_at desc)' }`. */
  indexes: Record<string, string>;
  /** The owner of the table removes rows whose time is more than this many days ago. A comparison with the log ignores such rows. */
  expires?: { column: string; days: number };
  /**
   * The owner of the table removes rows whose column is not in the result of `to` (a `select`). A comparison with the log ignores such
   * rows.
   */
  belongs?: { column: string; to: string };
}

/** The progress of the read models, and the waits for it. */
export abstract class ReadModels {
  /** Returns the filter of the events that the projection applies. */
  abstract filterOf(projection: string): EventFilter;
  /**
   * Resolves when the projection has applied everything up to the position. Throws ProblemError `read_model_behind` after the timeout (in ms, by
   * default 5,000).
   */
  abstract waitFor(projection: string, position: string, timeoutMs?: number): Promise<void>;
  /**
   * Waits as `waitFor` does, but does not throw if the projection has stopped or is too far behind. It is for responses that are possible
   * without the projection.
   */
  abstract waitIfRunning(projection: string, position: string): Promise<void>;
  /**
   * Throws ProblemError `read_model_behind` while rows are missing that existed before, because the table was lost and is being filled again.
   */
  abstract waitUntilFilled(projection: string): Promise<void>;
  /** Returns the progress of each read model: whether this program is ready, and if not, why. */
  abstract progress(): Promise<ReadModelProgress[]>;
}

export interface ReadModelProgress {
  name: string;
  /**
   * The value is false until the read model is filled and has caught up once since the start, and after an event that only a newer program
   * can read.
   */
  ready: boolean;
  /** The value is false while the read model has no rows to show, and after it stopped at an event that it can't apply. */
  serving: boolean;
  /** The reason why it is not ready or not serving; null if it is both. */
  reason: string | null;
}
