import type { StoredEvent } from '../event-store/event-store.ts';
import type { Projection, ProjectionTable, Rows } from './projection.ts';
import { isTime } from './projection-sql.ts';

export type Row = Record<string, unknown>;

/** What a batch does to the table. `failure` names the first event that could not be taken in; nothing of it, and nothing after it, is in here. */
export interface Folded {
  written: Row[];
  removed: string[];
  failure: { event: StoredEvent; error: unknown } | null;
}

/** The keys that each event names, up to the first event whose keys can't be told. */
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

/** Folds events, in order, into the rows that stand (`null`: there is none). Pure, as `project` is. */
export function fold(projection: Projection, events: readonly StoredEvent[], stored: ReadonlyMap<string, Row>): Folded {
  const { keys, error } = keysOf(projection, events);
  const changed = new Map<string, Row | null>();
  let failure: Folded['failure'] = null;
  for (const [index, event] of events.entries()) {
    const named = keys[index];
    if (named === undefined) {
      failure = { event, error };
      break;
    }
    const rows = new EventRows(projection.table, new Set(named), (key) => {
      const row = changed.get(key);
      return row === undefined ? (stored.get(key) ?? null) : row;
    });
    try {
      projection.project(event, rows);
    } catch (thrown) {
      failure = { event, error: thrown };
      break;
    }
    for (const [key, row] of rows.changes) changed.set(key, row);
  }
  const entries = [...changed];
  return {
    written: entries.flatMap(([, row]) => (row === null ? [] : [row])),
    removed: entries.flatMap(([key, row]) => (row === null ? [key] : [])),
    failure,
  };
}

/** What one event sees and changes; its changes count only once it was taken in whole. */
class EventRows implements Rows<Row> {
  readonly changes = new Map<string, Row | null>();

  constructor(
    private readonly table: ProjectionTable,
    private readonly named: ReadonlySet<string>,
    private readonly before: (key: string) => Row | null,
  ) {}

  get(key: string): Row | undefined {
    // Without this a row would be seen or not depending on where a batch was cut.
    if (!this.named.has(key)) throw new Error(`the row ${key} is read but not named by keys()`);
    const row = this.changes.get(key);
    return (row === undefined ? this.before(key) : row) ?? undefined;
  }

  set(key: string, row: Row): void {
    this.changes.set(key, asStored(this.table, key, row));
  }

  delete(key: string): void {
    this.changes.set(key, null);
  }
}

/** The row as it will read back: every column there, times in one form; frozen, because a change outside `set` would not be written. */
function asStored(table: ProjectionTable, key: string, row: Row): Row {
  if (row[table.key] !== key) throw new Error(`the row ${key} bears another key in ${table.key}`);
  for (const name of Object.keys(row))
    if (table.columns[name] === undefined) throw new Error(`the row ${key} has a member ${name}, which is no column of ${table.name}`);
  const whole: Row = {};
  for (const name of Object.keys(table.columns)) {
    const value = row[name] ?? null;
    whole[name] = value !== null && isTime(table, name) ? new Date(value as string).toISOString() : value;
  }
  return Object.freeze(whole);
}
