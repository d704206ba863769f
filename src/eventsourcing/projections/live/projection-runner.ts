/**
 * Keeps one read model up to date while this process holds its lease, and rebuilds it on request.
 *
 * Owns: the lease of the projection, its subscription to the log, and the writes to its table. Does not own the fold of a rebuild
 * (`ProjectionRebuild`), the table's SQL (`ReadModelTable`) or the waiting reads (`Projections`).
 *
 * P1  Each event changes the rows exactly once: rows and checkpoint move in one statement, fenced by the epoch of the lease.
 * P2  One write runs at a time, because each names the position that the one before left. A swap of tables is such a write.
 * P3  `position` never passes an event that concerns the projection and is not in the table. It may be ahead of the stored checkpoint by
 *     other events, for a bounded time.
 * P4  Three kinds of failure: one of the database is retried. A poison event, which the projection can't apply, stops it until a rebuild or
 *     a restart; its rows stay, and so does the lease, since another replica would fail at the same event. After an event that only a newer
 *     program can read, the lease is released to such a program.
 * P5  Rows of another version of the projection are never touched: each version has its own table, lease and checkpoint (decisions/0011).
 */
import { Logger } from '@nestjs/common';
import { v7 as uuidv7 } from 'uuid';

import { aborted, pause } from '../../../kernel/async/pause.ts';
import { Backoff } from '../../../kernel/async/retry.ts';
import { UnknownEvent } from '../../event-store/event-catalogue.ts';
import { START, type Position, type QuietHandler, type StoredEvent } from '../../event-store/event-store.ts';
import { WriteBuffer } from './write-buffer.ts';
import type { Lease, Leases } from '../../../postgres/leases/leases.ts';
import { catchUpInBulk, isFarBehind, isRebuildFaster } from './bulk-catch-up.ts';
import { type Projection, tableOf } from '../projection.ts';
import { ProjectionRebuild, type WithWritesPaused, type RebuildParts } from '../rebuild/projection-rebuild.ts';
import { ProjectionRegistry } from '../tables/projection-registry.ts';
import { PoisonEvent, ReadModelTable } from '../tables/read-model-table.ts';
import type { RebuildOrders } from '../rebuild/rebuild-orders.ts';
import type { RebuildOrder } from '../rebuild/rebuild-progress.ts';

/** The size of a full batch of a subscription, a sign that the log grows faster than its events are applied. */
const FULL_BATCH = 500;
/** The first pause before a retry after a failure of the database, in ms. It doubles up to the last. */
const FIRST_RETRY_MS = 100;
const LAST_RETRY_MS = 5_000;
/**
 * P3: The longest delay of the stored checkpoint after events that do not concern the projection, in ms. Other replicas see only this one.
 */
const CHECKPOINT_DELAY_MS = 200;

/** P4: The time for which this process leaves the lease to a newer program after an event that only such a program can read, in ms. */
const OUTDATED_RETRY_MS = 30_000;

/** The state of a projection on this replica: `standby` follows nothing because another process holds the lease. */
export type RunnerState = 'standby' | 'live' | 'failed';

/** The owner of a runner, which is notified of its changes. */
export interface RunnerOwner {
  /** Called after the runner's state or position changed. */
  onProgress(): void;
  /** Returns whether a reader waits for events that are not in the table yet. */
  isAwaited(): boolean;
}

/** The runner of one projection in this process. See P1 to P5. */
export class ProjectionRunner {
  state: RunnerState = 'standby';
  /** P3: The position up to which everything is in the table. */
  position: Position = START;
  /** The value is false until the table was filled from the log. A standby may not know yet that another replica has filled it. */
  filled = false;
  /** The error of the event that only a newer program can read, if this process has read one. */
  outdatedBy: string | null = null;
  private readonly logger = new Logger('Projections');
  private readonly registry: ProjectionRegistry;
  private readonly stopping = new AbortController();
  private running: Promise<void> | null = null;
  private readonly backoff = new Backoff({ firstMs: FIRST_RETRY_MS, lastMs: LAST_RETRY_MS });
  private table: ReadModelTable;
  private writeChain: Promise<void> = Promise.resolve();
  private checkpointTimer: NodeJS.Timeout | null = null;
  /** The events of the log that are not in the table yet; null while the log is not followed. */
  private buffer: WriteBuffer | null = null;

  constructor(
    readonly projection: Projection,
    private readonly parts: RebuildParts,
    private readonly leases: Leases,
    readonly orders: RebuildOrders,
    private readonly owner: RunnerOwner,
  ) {
    this.registry = new ProjectionRegistry(parts.database);
  }

  /** Resolves when the table exists. The log is followed from then on. Does nothing if the log is followed already. */
  async start(): Promise<void> {
    if (this.running !== null) return;
    this.parts.passes.expect(this.projection);
    await this.ensureTable();
    // The caller repeats the starts after one failed, so another call may have started this runner meanwhile.
    this.running ??= this.run();
  }

  /** Starts a write of the gathered events now, since a reader waits for them. */
  flushSoon(): void {
    this.buffer?.flushSoon();
  }

  /** Writes the gathered events and releases the lease. */
  async stop(): Promise<void> {
    this.stopping.abort();
    await this.running;
  }

  private ensureTable(): Promise<void> {
    return this.registry.ensureTable(this.projection, () => this.parts.store.head(this.projection.filter.eventClass));
  }

  private async run(): Promise<void> {
    const { signal } = this.stopping;
    const { passes } = this.parts;
    const withdraw = () => passes.withdraw(this.projection);
    while (!signal.aborted) {
      const lease = await this.leases.acquire(`projection:${tableOf(this.projection)}`, signal, withdraw).catch(() => null);
      if (lease === null) return withdraw();
      passes.expect(this.projection);
      const until = AbortSignal.any([signal, lease.signal]);
      lease.signal.addEventListener('abort', this.standBy, { once: true });
      try {
        await this.runAsHolder(lease, until);
      } catch (error) {
        withdraw();
        await this.handleFailure(error, lease, until);
      }
      this.state = 'standby';
      await lease.release();
      this.owner.onProgress();
    }
  }

  /** Stops serving positions: another process may hold the lease from now on, and a crash may have taken back the last rows. */
  private readonly standBy = (): void => {
    if (this.state !== 'live') return;
    this.state = 'standby';
    this.owner.onProgress();
  };

  private async handleFailure(error: unknown, lease: Lease, until: AbortSignal): Promise<void> {
    if (until.aborted) return;
    const { name } = this.projection;
    if (error instanceof UnknownEvent) return this.yieldToNewerProgram(error, lease);
    if (error instanceof PoisonEvent) {
      this.logger.error(
        `The projection ${name} stopped at an event that it can't apply, its rows stay as they are: ${error.message}`,
        error.stack,
      );
      this.state = 'failed';
      this.owner.onProgress();
      const told = this.registry.setState(this.projection, lease.fencingToken, 'failed', error.message.slice(0, 500));
      await told.catch((reason: Error) => this.logger.warn(reason.message));
      // P4: The lease is kept, since another replica would fail at the same event. Only a rebuild may help.
      return this.serveOrders(lease, until, noLiveTable, true).catch((reason: Error) => this.logger.warn(reason.message));
    }
    this.logger.warn(`The projection ${name} failed and continues in ${this.backoff.ms} ms: ${(error as Error).message}`);
    await this.backoff.pause(until);
  }

  /** P4: Stops and releases the lease, so that a newer program that can read the event takes over. The rows stay as they are. */
  private async yieldToNewerProgram(error: UnknownEvent, lease: Lease): Promise<void> {
    const { name } = this.projection;
    this.logger.error(
      `The projection ${name} stopped, its rows stay as they are, and this program is not ready any more: ${error.message}`,
    );
    this.outdatedBy = error.message;
    this.state = 'failed';
    this.owner.onProgress();
    const told = this.registry.setState(this.projection, lease.fencingToken, 'failed', error.message.slice(0, 500), true);
    await told.catch((reason: Error) => this.logger.warn(reason.message));
    await lease.release();
    await pause(OUTDATED_RETRY_MS, this.stopping.signal);
  }

  private async runAsHolder(lease: Lease, until: AbortSignal): Promise<void> {
    const { projection } = this;
    await this.ensureTable();
    let stored = await this.registry.claim(projection, lease.fencingToken);
    this.filled = stored.filled;
    await this.registry.dropLeftovers(projection);
    if (!stored.filled) {
      await this.fillFromLog(lease, until);
      if (until.aborted) return;
      stored = await this.registry.claim(projection, lease.fencingToken);
    }
    this.filled = true;
    this.outdatedBy = null;
    await this.registry.setState(projection, lease.fencingToken, 'running', null);
    this.table = new ReadModelTable(this.parts.database, projection, tableOf(projection), lease.fencingToken, stored.position);
    if (until.aborted) return;
    this.state = 'live';
    this.moveTo(stored.position);
    while (!until.aborted) {
      await this.catchUp(lease, until);
      this.parts.passes.withdraw(projection);
      await this.follow(lease, until);
    }
  }

  private async catchUp(lease: Lease, until: AbortSignal): Promise<void> {
    const { parts, projection, table } = this;
    if (!(await isFarBehind(parts.store, projection, table))) return;
    if ((await isRebuildFaster(parts.store, projection, table)) && (await this.rebuildBehind(lease, until))) return;
    this.logger.log(`${projection.name} is far behind and catches up in bulk`);
    await parts.catchUps.run(() => catchUpInBulk(parts.store, projection, table, until, () => this.moveTo(table.position)));
    this.backoff.reset();
  }

  /**
   * Rebuilds the rows beside the serving ones. Returns false if an event can't be applied; the serving rows then catch up to that event.
   */
  private async rebuildBehind(lease: Lease, until: AbortSignal): Promise<boolean> {
    this.logger.log(`${this.projection.name} is far behind and is rebuilt`);
    try {
      await this.rebuild({ id: uuidv7(), reason: 'behind' }, lease, until, this.withWritesPaused);
    } catch (error) {
      if (!(error instanceof PoisonEvent)) throw error;
      return false;
    }
    this.moveTo(this.table.position);
    this.backoff.reset();
    return true;
  }

  /** Follows the log and serves rebuild orders, until either ends or the log grows too fast. */
  private async follow(lease: Lease, until: AbortSignal): Promise<void> {
    const over = new AbortController();
    const gathered = new WriteBuffer(
      (events, upTo) => this.write(events, upTo),
      () => this.owner.isAwaited(),
    );
    this.buffer = gathered;
    const { concerns = () => true, filter } = this.projection;
    const onBatch = async (events: StoredEvent[], upTo: Position) => {
      const concerning = events.filter(concerns);
      if (concerning.length > 0 || !this.moveQuietly(gathered, upTo)) await gathered.add(concerning, upTo);
      if (events.length >= FULL_BATCH && (await isFarBehind(this.parts.store, this.projection, this.table)))
        over.abort(new Error('the log grows too fast'));
    };
    const onQuiet: QuietHandler = (events, upTo) => !events.some(concerns) && this.moveQuietly(gathered, upTo);
    const subscription = this.parts.store.subscribe(this.table.position, filter, onBatch, onQuiet);
    const orders = this.serveOrders(lease, AbortSignal.any([until, over.signal]), this.withWritesPaused, false);
    try {
      await Promise.race([subscription.ended, gathered.failed, orders, aborted(until), aborted(over.signal)]);
    } finally {
      over.abort(new Error('the consumer ended'));
      await orders.catch(() => undefined);
      // A rejection would only repeat the error that was just thrown.
      await subscription.stop().catch(() => undefined);
      subscription.ended.catch(() => undefined);
      // Events that can't be written any more are read again.
      await gathered.flush().catch((error: Error) => this.logger.debug(error.message));
      this.buffer = null;
      await this.writeCheckpoint();
    }
  }

  /**
   * Moves over events that do not concern the projection, of which most events concern few: a write for each of the others would cost more than
   * the events themselves. Returns false if events before them are not in the table yet.
   */
  private moveQuietly(gathered: WriteBuffer, upTo: Position): boolean {
    if (!gathered.isEmpty) return false;
    this.checkpointTimer ??= setTimeout(() => void this.writeCheckpoint(), CHECKPOINT_DELAY_MS);
    if (upTo > this.position) this.moveTo(upTo);
    return true;
  }

  private async write(events: StoredEvent[], upTo: Position): Promise<void> {
    const write = async () => {
      // A rebuild may have read further than this subscription, so some events may be in the table already.
      const missing = events.filter(({ position }) => position > this.table.position);
      if (upTo > this.table.position) await this.table.write(missing, upTo);
    };
    // If the batch has a poison event, the events before it are in the table.
    await this.serialize(write).finally(() => this.moveTo(this.table.position));
    this.backoff.reset();
  }

  private async writeCheckpoint(): Promise<void> {
    if (this.checkpointTimer === null) return;
    clearTimeout(this.checkpointTimer);
    this.checkpointTimer = null;
    // If this fails, only events that do not concern the projection are read once more.
    const write = async () => {
      if (this.position > this.table.position) await this.table.write([], this.position);
    };
    await this.serialize(write).catch((error: Error) => this.logger.debug(error.message));
  }

  /** P2: Swaps the tables between two writes of the followed log. */
  private readonly withWritesPaused: WithWritesPaused = (swap) =>
    this.serialize(async () => {
      this.table = await swap(this.table.position);
    });

  /** P2: Runs one write at a time. */
  private serialize(work: () => Promise<void>): Promise<void> {
    const done = this.writeChain.then(work);
    this.writeChain = done.catch(() => undefined);
    return done;
  }

  private moveTo(position: Position): void {
    this.position = position;
    this.owner.onProgress();
  }

  /** Builds the rows of this version, beside those of another version if there are any. */
  private async fillFromLog(lease: Lease, until: AbortSignal): Promise<void> {
    const { projection } = this;
    const reason = (await this.registry.hasOtherVersion(projection)) ? 'version' : 'empty';
    this.logger.log(`${projection.name} is filled for version ${projection.version}`);
    await this.registry.setState(projection, lease.fencingToken, 'rebuilding', null);
    try {
      await this.rebuild({ id: uuidv7(), reason }, lease, until, noLiveTable);
    } catch (error) {
      // P5: Programs of the other version continue with their rows, and this one is not ready.
      if (reason === 'version' || !(error instanceof PoisonEvent)) throw error;
      // The only rows are those up to that event. They are better than none, and following the log stops at the event once more.
      await this.registry.setFilled(projection);
    }
  }

  /** Executes the ordered rebuilds until the signal aborts or, with `once`, until one has succeeded. */
  private serveOrders(lease: Lease, until: AbortSignal, withWritesPaused: WithWritesPaused, once: boolean): Promise<void> {
    return this.orders.serve((rebuildId, signal) => this.rebuildAsOrdered(rebuildId, lease, signal, withWritesPaused), until, once);
  }

  /** Does nothing if the rows of this rebuild serve already: then only the record of its end is missing. */
  private async rebuildAsOrdered(rebuildId: string, lease: Lease, until: AbortSignal, withWritesPaused: WithWritesPaused): Promise<void> {
    const { rebuildId: last } = await this.registry.claim(this.projection, lease.fencingToken);
    if (last === rebuildId) return;
    const wasLive = this.state === 'live';
    try {
      if (wasLive) await this.registry.setState(this.projection, lease.fencingToken, 'rebuilding', null);
      await this.rebuild({ id: rebuildId, reason: 'requested' }, lease, until, withWritesPaused);
    } finally {
      if (wasLive) await this.registry.setState(this.projection, lease.fencingToken, 'running', null);
    }
  }

  private async rebuild(order: RebuildOrder, lease: Lease, until: AbortSignal, withWritesPaused: WithWritesPaused): Promise<void> {
    const rebuild = new ProjectionRebuild(this.parts, this.projection, lease.fencingToken);
    const { events, eventsPerSecond } = await rebuild.run(order, until, withWritesPaused);
    this.filled = true;
    this.logger.log(`${this.projection.name} was rebuilt from ${events} events, ${eventsPerSecond ?? 0} a second`);
  }
}

/** Swaps the tables of a projection whose serving table is not written. */
const noLiveTable: WithWritesPaused = async (swap) => void (await swap(START));
