/**
 * Rebuilds one read model beside the rows that serve, and swaps the two.
 *
 * Owns: the table that is being built, and the record of the rebuild's progress. Does not own the reading of the log (`LogPasses`), the
 * lease under which it runs, or the serving table, which is only replaced.
 *
 * B1  Readers and writers of the serving rows are not disturbed until the swap, which is one transaction, tried again if readers don't make
 *     way in time.
 * B2  The swap happens while writes to the serving table are paused, and only once the built rows go as far as the serving ones.
 * B3  The name of the built table contains the lease's epoch, so late writes of a stalled holder go to another table.
 * B4  A rebuild that fails leaves the serving rows unchanged. The next holder of the lease removes what it could not clean up.
 */
import type pg from 'pg';

import { pause } from '../../../kernel/async/pause.ts';
import type { SerialQueue } from '../../../kernel/async/serial-queue.ts';
import type { Database } from '../../../postgres/database/database.ts';
import { copyIn } from '../../../postgres/database/copy.ts';
import { START, type EventStore, type Position } from '../../event-store/event-store.ts';
import { yieldToOtherWork, type LogPasses } from './log-pass.ts';
import { type Projection, tableOf } from '../projection.ts';
import { ProjectionRegistry } from '../tables/projection-registry.ts';
import { createBareStatement, createStatements, indexStatements } from '../tables/projection-sql.ts';
import { isRefusedRow, ReadModelTable } from '../tables/read-model-table.ts';
import { ProgressRecord, type RebuildOrder } from './rebuild-progress.ts';
import { copyStatement } from '../tables/row-copy.ts';

/** B2: The number of remaining events that is small enough to be applied while writes to the serving rows wait. */
const NEAR_EVENTS = 200;
const CATCH_UP_ROUNDS = 100;
/** The pause between two attempts to swap the tables while readers do not make way, in ms. */
const SWAP_RETRY_MS = 300;

/** The services that rebuilds and comparisons use. */
export interface RebuildParts {
  database: Database;
  store: EventStore;
  passes: LogPasses;
  /** Returns the pool of connections without a statement timeout: for the writers of a pass, and one comparison. */
  pool: () => pg.Pool;
  /** Comparisons run one at a time. */
  comparisons: SerialQueue;
  /** Bulk catch-ups run one at a time. */
  catchUps: SerialQueue;
}

/** B2: Runs `swap` while nothing writes the serving table, with the position up to which that table goes. */
export type WithWritesPaused = (swap: (upTo: Position) => Promise<ReadModelTable>) => Promise<void>;

/** Copies the text of rows into the table, which has no key yet. Throws the signal's reason, or PostgreSQL's error. */
export async function writeRows(
  client: pg.ClientBase,
  { table }: Projection,
  physical: string,
  texts: AsyncIterable<Buffer> | Iterable<Buffer>,
  signal: AbortSignal,
): Promise<void> {
  async function* politely(): AsyncGenerator<Buffer> {
    for await (const text of texts) {
      signal.throwIfAborted();
      yield text;
      await yieldToOtherWork();
    }
  }
  await copyIn(client, copyStatement(table, physical), politely());
}

/** One attempt, by the holder of one lease, to rebuild a read model beside the serving table. */
export class ProjectionRebuild {
  private readonly registry: ProjectionRegistry;
  private readonly progress: ProgressRecord;
  /** B3: The name of the table that is built. */
  private readonly buildingTable: string;

  constructor(
    private readonly parts: RebuildParts,
    private readonly projection: Projection,
    private readonly fencingToken: string,
  ) {
    this.registry = new ProjectionRegistry(parts.database);
    this.progress = new ProgressRecord(parts.database, tableOf(projection), fencingToken);
    this.buildingTable = `${tableOf(projection)}_b${fencingToken}`;
  }

  /**
   * Runs the rebuild. Throws `PoisonEvent`, `LeaseLost`, the signal's reason, or the database's error; the serving rows are then unchanged.
   */
  async run(
    order: RebuildOrder,
    signal: AbortSignal,
    withWritesPaused: WithWritesPaused,
  ): Promise<{ events: number; eventsPerSecond: number | null }> {
    const { store } = this.parts;
    const { eventClass } = this.projection.filter;
    try {
      await this.progress.open(order, await store.head(eventClass));
      const { built, rate } = await this.build(order, signal);
      await this.progress.enter('catching_up');
      await this.catchUp(built, signal);
      await this.swap(order, built, signal, withWritesPaused);
      return rate;
    } finally {
      // B4: If this fails too, the next holder of the lease cleans up.
      await this.progress.close().catch(() => undefined);
      await this.registry.drop(this.buildingTable).catch(() => undefined);
    }
  }

  /** Builds the table in one pass with all other rebuilds that start at this time. */
  private async build(order: RebuildOrder, signal: AbortSignal) {
    const { projection } = this;
    let end: Position = START;
    let rate = this.progress.rate();
    try {
      await this.parts.passes.fold({
        projection,
        end: null,
        signal,
        onBegin: async (head) => {
          end = head;
          await this.registry.drop(this.buildingTable);
          await this.parts.database.query(createBareStatement(projection.table, this.buildingTable));
          await this.progress.open(order, head);
          await this.progress.enter('folding');
        },
        onProgress: (events, upTo) => this.progress.add(events, upTo),
        add: (text) => this.withConnection((client) => writeRows(client, projection, this.buildingTable, [text], signal)),
        write: async (fold) => {
          rate = this.progress.rate();
          await this.progress.enter('writing');
          await this.withConnection(async (client) => {
            await writeRows(client, projection, this.buildingTable, fold.text(), signal);
            for (const statement of indexStatements(projection.table, this.buildingTable)) await client.query(statement);
            await client.query(`analyze "${this.buildingTable}"`);
          });
        },
      });
    } catch (error) {
      // Only applying the events in small transactions can name the event whose row is refused.
      if (isRefusedRow(error)) return { built: await this.openEmpty(), rate };
      throw error;
    }
    return { built: await this.open(end), rate };
  }

  /** Runs the work on a connection, which is closed if the work fails, since rows may still be in transit. */
  private async withConnection(work: (client: pg.PoolClient) => Promise<void>): Promise<void> {
    const client = await this.parts.pool().connect();
    let whole = false;
    try {
      await work(client);
      whole = true;
    } finally {
      client.release(!whole);
    }
  }

  private async open(position: Position): Promise<ReadModelTable> {
    await this.parts.database.query('insert into projection_checkpoints (table_name, position, epoch) values ($1, $2, $3)', [
      this.buildingTable,
      position,
      this.fencingToken,
    ]);
    return new ReadModelTable(this.parts.database, this.projection, this.buildingTable, this.fencingToken, position);
  }

  private async openEmpty(): Promise<ReadModelTable> {
    await this.registry.drop(this.buildingTable);
    for (const statement of createStatements(this.projection.table, this.buildingTable)) await this.parts.database.query(statement);
    return this.open(START);
  }

  /** Applies what was appended meanwhile, until few events are left. */
  private async catchUp(built: ReadModelTable, signal: AbortSignal): Promise<void> {
    for (let round = 0; round < CATCH_UP_ROUNDS; round += 1) {
      const events = await this.applyUpTo(built, await this.parts.store.head(this.projection.filter.eventClass), signal);
      if (events < NEAR_EVENTS) return;
    }
  }

  private async applyUpTo(built: ReadModelTable, end: Position, signal?: AbortSignal): Promise<number> {
    let taken = 0;
    if (end <= built.position) return taken;
    for await (const { events, upTo } of this.parts.store.readBulk(built.position, end, this.projection.filter)) {
      signal?.throwIfAborted();
      await built.write(events, upTo);
      taken += events.length;
    }
    if (end > built.position) await built.write([], end);
    return taken;
  }

  private async swap({ id }: RebuildOrder, built: ReadModelTable, signal: AbortSignal, withWritesPaused: WithWritesPaused): Promise<void> {
    const { projection, fencingToken: epoch } = this;
    for (;;) {
      signal.throwIfAborted();
      try {
        return await withWritesPaused(async (upTo) => {
          await this.applyUpTo(built, upTo);
          await this.registry.swap(projection, this.buildingTable, epoch, id);
          return new ReadModelTable(this.parts.database, projection, tableOf(projection), epoch, built.position);
        });
      } catch (error) {
        if (!isBusy(error)) throw error;
        await pause(SWAP_RETRY_MS, signal);
        signal.throwIfAborted();
        await this.catchUp(built, signal);
      }
    }
  }
}

/** Returns whether readers of the old rows did not make way in time, or there was a deadlock. */
function isBusy(error: unknown): boolean {
  return ['55P03', '40P01'].includes((error as { code?: string }).code ?? '');
}
