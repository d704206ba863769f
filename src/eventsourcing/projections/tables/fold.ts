import type { StoredEvent } from '../../event-store/event-store.ts';
import { isTime } from '../../../postgres/database/table.ts';
import type { Projection, ProjectionTable, Rows } from '../projection.ts';

export type Row = Record<string, unknown>;

/**
 * The changes that a batch makes to the table. `failure` is the first event that could not be applied; the changes of that event and of
 * later ones are not included.
 */
export interface FoldResult {
  written: Row[];
  removed: string[];
  failure: { event: StoredEvent; error: unknown } | null;
}

/** Returns the keys that each event names, up to the first event for which `keys` throws, and its error. */
export function keysOf(projection: Projection, events: readonly StoredEvent[]): { keys: string[][]; error: unknown } {
  const keys: string[][] = [];
  for (const event of events)
    try {
      keys.push(projection.keys(event));
    } catch (error) {
      return { keys, error };
    }
  return { keys, error: null };
}

/** Folds events, in order, into the stored rows (`null`: there is none). It is pure, as `project` is. */
export function fold(projection: Projection, events: readonly StoredEvent[], stored: ReadonlyMap<string, Row>): FoldResult {
  const { keys, error } = keysOf(projection, events);
  const changed = new Map<string, Row | null>();
  const ofEvent = new Map<string, Row | null>();
  const rows = new EventRows(
    projection.table,
    (key) => {
      const row = ofEvent.get(key);
      if (row !== undefined) return row;
      const before = changed.get(key);
      return before === undefined ? stored.get(key) : before;
    },
    (key, row) => ofEvent.set(key, row),
  );
  let failure: FoldResult['failure'] = null;
  for (const [index, event] of events.entries()) {
    const named = keys[index];
    if (named === undefined) {
      failure = { event, error };
      break;
    }
    try {
      rows.project(projection, event, named);
    } catch (thrown) {
      failure = { event, error: thrown };
      break;
    }
    // The changes of an event count only once it was applied completely.
    for (const [key, row] of ofEvent) changed.set(key, row);
    ofEvent.clear();
  }
  const entries = [...changed];
  return {
    written: entries.flatMap(([, row]) => (row === null ? [] : [row])),
    removed: entries.flatMap(([key, row]) => (row === null ? [key] : [])),
    failure,
  };
}

/** The rows that events see and change, one event after the other. */
export class EventRows implements Rows<Row> {
  private readonly columns: { name: string; isTime: boolean }[];
  private named: readonly string[] = [];
  /** The time of the current event. */
  private at = '';

  constructor(
    private readonly table: ProjectionTable,
    private readonly persisted: (key: string) => Row | null | undefined,
    /** `isNamed`: the event's keys name the row. */
    private readonly onChange: (key: string, row: Row | null, isNamed: boolean) => void,
  ) {
    this.columns = Object.keys(table.columns).map((name) => ({ name, isTime: isTime(table, name) }));
  }

  /** Applies the event. Throws what `project` throws, possibly after some of its changes. */
  project(projection: Projection, event: StoredEvent, named: readonly string[]): void {
    this.named = named;
    this.at = event.at;
    projection.project(event, this);
  }

  get(key: string): Row | undefined {
    // Without this check a row would be seen or not depending on where a batch was cut.
    if (!this.named.includes(key)) throw new Error(`the row ${key} is read but not named by keys()`);
    return this.persisted(key) ?? undefined;
  }

  set(key: string, row: Row): void {
    if (row[this.table.key] !== key)
      throw new Error(`the row set under key ${key} has a different value in its key column ${this.table.key}`);
    const isNamed = this.named.includes(key);
    const stored = this.asStored(row, isNamed ? this.persisted(key) : undefined);
    // The row is frozen because a change outside `set` would not be written. A row that is not named is never read.
    this.onChange(key, isNamed ? Object.freeze(stored) : stored, isNamed);
  }

  delete(key: string): void {
    if (!this.named.includes(key)) throw new Error(`the row ${key} is removed but not named by keys()`);
    this.onChange(key, null, true);
  }

  /**
   * Returns the row as it will be read back, with every column and with times in one format. It is frozen, because a change outside `set`
   * would not be written.
   */
  private asStored(row: Row, standing: Row | null | undefined): Row {
    let known = 0;
    let inForm = true;
    for (const { name, isTime: isATime } of this.columns) {
      const value = row[name];
      if (value === undefined) {
        inForm = false;
        if (!(name in row)) continue;
      } else if (isATime && !(value === null || value === this.at || value === standing?.[name])) inForm = false;
      known += 1;
    }
    let members = 0;
    for (const _ in row) members += 1;
    if (members !== known) throw new Error(this.wrongKeyMessage(row));
    return inForm ? row : this.withEveryColumn(row);
  }

  private withEveryColumn(row: Row): Row {
    const whole: Row = {};
    for (const { name, isTime: isATime } of this.columns) {
      const value = row[name] ?? null;
      whole[name] = isATime && value !== null ? new Date(value as string).toISOString() : value;
    }
    return whole;
  }

  private wrongKeyMessage(row: Row): string {
    const name = Object.keys(row).find((each) => this.table.columns[each] === undefined);
    return `the row ${String(row[this.table.key])} has a member ${name}, which is no column`;
  }
}
