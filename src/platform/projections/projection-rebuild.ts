import { setImmediate as breathe, setTimeout as wait } from 'node:timers/promises';

import type pg from 'pg';

import type { Database } from '../database/database.ts';
import { copyIn } from '../database/copy.ts';
import { START, type EventStore, type Position } from '../event-store/event-store.ts';
import { BoundedFold, type FoldBounds } from './bounded-fold.ts';
import type { Projection } from './projection.ts';
import { ProjectionRegistry } from './projection-registry.ts';
import { createBareStatement, createStatements, indexStatements } from './projection-sql.ts';
import { isRefusedRow, ReadModelTable } from './read-model-table.ts';
import { ProgressRecord, type RebuildOrder } from './rebuild-progress.ts';
import { copyLines, copyStatement } from './row-copy.ts';

/** How long the fold may keep the process from answering others at a time, ms: a third of how long it gave way to them before, in these bounds. */
const SLICE_MS = 2;
const SLICE_MAX_MS = 10;
const SHARE = 1 / 3;
const SLICE_EVENTS = 100;
/** A turn of the event loop that takes longer, ms, had others to serve. Then they get another, up to so many. */
const BUSY_MS = 0.3;
const TURNS_MAX = 6;
/** A rest of the log that is short enough to be taken in while the live rows wait. */
const NEAR_EVENTS = 200;
const CATCH_UP_ROUNDS = 100;
/** Between two tries to change over while readers do not make way, ms. */
const SWAP_RETRY_MS = 300;

/** What rebuilds and comparisons work with. */
export interface RebuildParts {
  database: Database;
  store: EventStore;
  bounds: FoldBounds;
  /** Connections whose statements may last. */
  pool: () => pg.Pool;
  /** One fold at a time in this process, so that the bound on memory holds for all of them. */
  turn: <T>(work: () => Promise<T>) => Promise<T>;
}

/** Whoever writes the serving table stands still while `swap` runs, which is given the position up to which that table goes. */
export type ChangeOver = (swap: (upTo: Position) => Promise<ReadModelTable>) => Promise<void>;

/** Folds the log up to and with `end` into rows and copies them into the table, which has no key yet. Throws `PoisonEvent`, the signal's reason. */
export async function foldInto(
  { store, bounds }: RebuildParts,
  projection: Projection,
  target: { client: pg.ClientBase; table: string; end: Position },
  signal: AbortSignal,
  onProgress: (events: number, upTo: Position) => Promise<void>,
  onFolded: () => Promise<void> = () => Promise.resolve(),
): Promise<void> {
  const fold = new BoundedFold(projection, bounds);
  try {
    let since = performance.now();
    let slice = SLICE_MS;
    for await (const { events, upTo } of store.readBulk(START, target.end, projection.filter)) {
      signal.throwIfAborted();
      for (let from = 0; from < events.length; from += SLICE_EVENTS) {
        await fold.take(events.slice(from, from + SLICE_EVENTS));
        if (performance.now() - since < slice) continue;
        slice = Math.min(Math.max(SLICE_MS, (await giveWay()) * SHARE), SLICE_MAX_MS);
        since = performance.now();
      }
      await onProgress(events.length, upTo);
    }
    await onFolded();
    const text = copyStatement(projection.table, target.table);
    await copyIn(target.client, text, linesOf(projection, fold, signal));
  } finally {
    await fold.close();
  }
}

/**
 * Lets whoever else has something to do in this process do it. A request needs several answers of the database one after the other, and each
 * would wait for a slice of the fold; in a process with nothing else to do this takes no time. Answers how long it took, ms.
 */
async function giveWay(): Promise<number> {
  const since = performance.now();
  for (let turn = 0; turn < TURNS_MAX; turn += 1) {
    const began = performance.now();
    await breathe();
    if (performance.now() - began < BUSY_MS) break;
  }
  return performance.now() - since;
}

async function* linesOf(projection: Projection, fold: BoundedFold, signal: AbortSignal): AsyncGenerator<Buffer> {
  for await (const rows of fold.rows()) {
    signal.throwIfAborted();
    yield Buffer.from(copyLines(projection.table, rows));
    await giveWay();
  }
}

/** One try to make a read model anew beside the one that serves, as the holder of one lease. */
export class ProjectionRebuild {
  private readonly registry: ProjectionRegistry;
  private readonly progress: ProgressRecord;
  /** Named after the epoch: what a holder that stalled still writes goes elsewhere. */
  private readonly building: string;

  constructor(
    private readonly parts: RebuildParts,
    private readonly projection: Projection,
    private readonly epoch: string,
  ) {
    this.registry = new ProjectionRegistry(parts.database);
    this.progress = new ProgressRecord(parts.database, projection.name, epoch);
    this.building = `${projection.table.name}_b${epoch}`;
  }

  /** Throws `PoisonEvent`, `LeaseLost`, the signal's reason, or what the database threw; the serving rows are as they were then. */
  async run(order: RebuildOrder, signal: AbortSignal, changeOver: ChangeOver): Promise<{ events: number; eventsPerSecond: number | null }> {
    const { store } = this.parts;
    const { eventClass } = this.projection.filter;
    try {
      await this.progress.open(order, await store.head(eventClass));
      const { built, rate } = await this.parts.turn(() => this.build(order, signal));
      await this.progress.enter('catching_up');
      await this.catchUp(built, signal);
      await this.swap(order, built, signal, changeOver);
      return rate;
    } finally {
      // Where this fails too, the next holder of the lease clears up.
      await this.progress.close().catch(() => undefined);
      await this.registry.drop(this.building).catch(() => undefined);
    }
  }

  private async build(order: RebuildOrder, signal: AbortSignal) {
    signal.throwIfAborted();
    const end = await this.parts.store.head(this.projection.filter.eventClass);
    await this.progress.open(order, end);
    await this.progress.enter('folding');
    let rate = this.progress.rate();
    const client = await this.parts.pool().connect();
    let whole = false;
    try {
      await this.registry.drop(this.building);
      await client.query(createBareStatement(this.projection.table, this.building));
      const onFolded = async () => {
        rate = this.progress.rate();
        await this.progress.enter('writing');
      };
      const onProgress = (events: number, upTo: Position) => this.progress.add(events, upTo);
      await foldInto(this.parts, this.projection, { client, table: this.building, end }, signal, onProgress, onFolded);
      for (const statement of indexStatements(this.projection.table, this.building)) await client.query(statement);
      await client.query(`analyze "${this.building}"`);
      whole = true;
      return { built: await this.open(end), rate };
    } catch (error) {
      // The slow way can name the event whose row is refused.
      if (isRefusedRow(error)) return { built: await this.openEmpty(), rate };
      throw error;
    } finally {
      client.release(!whole);
    }
  }

  private async open(position: Position): Promise<ReadModelTable> {
    await this.parts.database.query('insert into projection_checkpoints (table_name, position, epoch) values ($1, $2, $3)', [
      this.building,
      position,
      this.epoch,
    ]);
    return new ReadModelTable(this.parts.database, this.projection, this.building, this.epoch, position);
  }

  private async openEmpty(): Promise<ReadModelTable> {
    await this.registry.drop(this.building);
    for (const statement of createStatements(this.projection.table, this.building)) await this.parts.database.query(statement);
    return this.open(START);
  }

  /** Takes in what was appended meanwhile, until little is left. */
  private async catchUp(built: ReadModelTable, signal: AbortSignal): Promise<void> {
    for (let round = 0; round < CATCH_UP_ROUNDS; round += 1) {
      const events = await this.takeUpTo(built, await this.parts.store.head(this.projection.filter.eventClass), signal);
      if (events < NEAR_EVENTS) return;
    }
  }

  private async takeUpTo(built: ReadModelTable, end: Position, signal?: AbortSignal): Promise<number> {
    let taken = 0;
    if (end <= built.position) return taken;
    for await (const { events, upTo } of this.parts.store.readBulk(built.position, end, this.projection.filter)) {
      signal?.throwIfAborted();
      await built.take(events, upTo);
      taken += events.length;
    }
    if (end > built.position) await built.take([], end);
    return taken;
  }

  private async swap({ id }: RebuildOrder, built: ReadModelTable, signal: AbortSignal, changeOver: ChangeOver): Promise<void> {
    const { projection, epoch } = this;
    for (;;) {
      signal.throwIfAborted();
      try {
        return await changeOver(async (upTo) => {
          await this.takeUpTo(built, upTo);
          await this.registry.swap(projection, this.building, epoch, id);
          return new ReadModelTable(this.parts.database, projection, projection.table.name, epoch, built.position);
        });
      } catch (error) {
        if (!isBusy(error)) throw error;
        await wait(SWAP_RETRY_MS, undefined, { signal });
        await this.catchUp(built, signal);
      }
    }
  }
}

/** A reader of the old rows did not make way in time. */
function isBusy(error: unknown): boolean {
  return ['55P03', '40P01'].includes((error as { code?: string }).code ?? '');
}
