import { eventDefinitions } from '../../src/app.module.ts';
import type { Database } from '../../src/postgres/database/database.ts';
import { openDatabase } from '../../src/postgres/database/open-database.ts';
import { EventCatalogue } from '../../src/eventsourcing/event-store/event-catalogue.ts';
import {
  START,
  type EventClass,
  type EventStore,
  type Position,
  type StoredEvent,
} from '../../src/eventsourcing/event-store/event-store.ts';
import { PostgresEventStore } from '../../src/eventsourcing/event-store/postgres/postgres-event-store.ts';
import { fold } from '../../src/eventsourcing/projections/tables/fold.ts';
import { tableOf, type Projection } from '../../src/eventsourcing/projections/projection.ts';
import { isTime } from '../../src/postgres/database/table.ts';
import { follows, foldedProjections } from './read-models.ts';
import { untilTrue } from './until.ts';

/** Reads the log and the read models of running services directly. */
export class SeenLog {
  private constructor(
    private readonly database: Database,
    readonly store: EventStore,
    private readonly catalogue: EventCatalogue,
  ) {}

  static async open(url: string): Promise<SeenLog> {
    const database = await openDatabase({ url });
    const catalogue = new EventCatalogue(eventDefinitions);
    return new SeenLog(database, new PostgresEventStore(database, catalogue), catalogue);
  }

  async close(): Promise<void> {
    await this.store.close();
    await this.database.close();
  }

  query<Row extends Record<string, unknown>>(sql: string, values: unknown[] = []): Promise<Row[]> {
    return this.database.query<Row>(sql, values);
  }

  async events(eventClass: EventClass = 'core'): Promise<StoredEvent[]> {
    const all: StoredEvent[] = [];
    for await (const batch of this.store.readAll(START, { eventClass })) all.push(...batch);
    return all;
  }

  /** Returns the agent's output that is in the log. */
  async lines(agentId: string): Promise<string[]> {
    const lines: string[] = [];
    for await (const { data } of this.store.readStream(`log-${agentId}`)) lines.push(...(data.lines as { m: string }[]).map(({ m }) => m));
    return lines;
  }

  /** Waits until every read model has caught up with the log. */
  async caughtUp(): Promise<void> {
    const positions = 'select table_name, position from projection_checkpoints';
    await untilTrue(async () => {
      const [core, log] = await this.heads();
      const rows = await this.query<{ table_name: string; position: string }>(positions);
      return rows.every(({ table_name, position }) => position >= (table_name.startsWith('log_lines') ? log : core));
    });
  }

  /**
   * Returns, for each read model, the number of rows that are missing from it or that an application of the whole log does not produce.
   * Compares again if something was appended meanwhile, since agents print lines and fall asleep at any time.
   */
  async differences(): Promise<Record<string, number>> {
    for (;;) {
      await this.caughtUp();
      const before = await this.heads();
      const events = { core: await this.events(), log: await this.events('log') };
      const told = foldedProjections(this.catalogue).map(async (projection) => {
        const { eventClass } = projection.filter;
        // Rows may remain of log events that retention has deleted.
        return [projection.name, await this.difference(projection, events[eventClass], eventClass === 'log')] as const;
      });
      const differences = Object.fromEntries(await Promise.all(told));
      if ((await this.heads()).join() === before.join()) return differences;
    }
  }

  private heads(): Promise<[Position, Position]> {
    return Promise.all([this.store.head('core'), this.store.head('log')]);
  }

  /** Returns a test that is true for rows whose owner still exists; rows of deleted agents, for example, may be removed. */
  private async ownedRows({ table: { belongs } }: Projection): Promise<(row: Record<string, unknown>) => boolean> {
    if (belongs === undefined) return () => true;
    const owners = new Set((await this.query(belongs.to)).flatMap((row) => Object.values(row)));
    return (row) => owners.has(row[belongs.column]);
  }

  private async difference(projection: Projection, events: StoredEvent[], rowsMayStay: boolean): Promise<number> {
    const { table } = projection;
    const passed = events.filter((event) => follows(projection, event));
    const { written, failure } = fold(projection, passed, new Map());
    if (failure !== null) throw failure.error;
    const rows = await this.query(`select * from ${tableOf(projection)}`);
    const asText = (row: Record<string, unknown>) =>
      JSON.stringify(
        Object.keys(table.columns).map((name) => {
          const value = row[name] ?? null;
          return isTime(table, name) && value !== null ? new Date(value as string).toISOString() : value;
        }),
      );
    const stands = await this.ownedRows(projection);
    const wanted = new Set(written.filter(stands).map(asText));
    const found = new Set(rows.filter(stands).map(asText));
    const missing = [...wanted].filter((row) => !found.has(row)).length;
    return missing + (rowsMayStay ? 0 : [...found].filter((row) => !wanted.has(row)).length);
  }
}
