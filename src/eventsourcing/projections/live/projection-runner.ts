import { Logger } from '@nestjs/common';
import { v7 as uuidv7 } from 'uuid';

import { aborted, pause } from '../../../kernel/async/pause.ts';
import { Backoff } from '../../../kernel/async/retry.ts';
import { UnknownEvent } from '../../event-store/event-catalogue.ts';
import { START, type Position, type QuietHandler, type StoredEvent } from '../../event-store/event-store.ts';
import { GatheredEvents } from './gathered-events.ts';
import type { Lease, Leases } from '../../../postgres/leases/leases.ts';
import { catchUpInBulk, isFarBehind, isRebuildFaster } from './bulk-catch-up.ts';
import { type Projection, tableOf } from '../projection.ts';
import { ProjectionRebuild, type WithWritesPaused, type RebuildParts } from '../rebuild/projection-rebuild.ts';
import { ProjectionRegistry } from '../tables/projection-registry.ts';
import { PoisonEvent, ReadModelTable } from '../tables/read-model-table.ts';
import type { RebuildOrders } from '../rebuild/rebuild-orders.ts';
import type { RebuildOrder } from '../rebuild/rebuild-progress.ts';

/** The size of a full batch of a subscription, a sign that the log grows faster than it is taken in. */
const FULL_BATCH = 500;
/** The first pause before a retry after a failure of the database, ms; it doubles up to the last. */
const FIRST_RETRY_MS = 100;
const LAST_RETRY_MS = 5_000;
/**
 * The longest time for which the stored checkpoint stays behind if the filter let nothing through, ms; other replicas see only the stored
 * one.
 */
const QUIET_WRITE_MS = 200;

/** The time for which this process leaves the lease to a newer program after an event that only such a program can read, ms. */
const OUTDATED_RETRY_MS = 30_000;

/** The state of a projection on this replica: `standby` follows nothing because another process holds the lease. */
export type RunnerState = 'standby' | 'live' | 'failed';

/** The owner of a runner, which is notified of its changes. */
export interface RunnerOwner {
  /** Called after the runner's state or position changed. */
  moved(): void;
  /** Returns whether a reader waits for events that are not in the table yet. */
  isAwaited(): boolean;
}

/**
 * Keeps one read model up to date for as long as this process holds its lease, and rebuilds it on request. It retries after a failure of
 * the database. A poison event stops it until it is rebuilt or started again, while its rows go on serving.
 */
export class ProjectionRunner {
  state: RunnerState = 'standby';
  /**
   * The position up to which everything is in the table. It is ahead of the stored checkpoint only by events that do not concern the
   * projection.
   */
  position: Position = START;
  /** The value is false while rows are missing that existed before; a standby may not know yet. */
  filled = false;
  /** The error of the event that only a newer program can read, if this process met one. */
  outdatedBy: string | null = null;
  private readonly logger = new Logger('Projections');
  private readonly registry: ProjectionRegistry;
  private readonly stopping = new AbortController();
  private running: Promise<void> | null = null;
  private readonly backoff = new Backoff({ firstMs: FIRST_RETRY_MS, lastMs: LAST_RETRY_MS });
  private table: ReadModelTable;
  private turn: Promise<void> = Promise.resolve();
  private quietWrite: NodeJS.Timeout | null = null;
  /** The events of the log that are not in the table yet; null while the log is not followed. */
  private gathered: GatheredEvents | null = null;

  constructor(
    readonly projection: Projection,
    private readonly parts: RebuildParts,
    private readonly leases: Leases,
    readonly orders: RebuildOrders,
    private readonly owner: RunnerOwner,
  ) {
    this.registry = new ProjectionRegistry(parts.database);
  }

  /** Resolves when the table exists; the log is followed from then on. It does nothing if the log is followed already. */
  async start(): Promise<void> {
    if (this.running !== null) return;
    this.parts.passes.expect(this.projection);
    await this.ensureTable();
    // A start that is repeated meanwhile, since another read model's failed, may have come first.
    this.running ??= this.run();
  }

  /** Starts a write of the gathered events now, since a reader waits for them. */
  flushSoon(): void {
    this.gathered?.flushSoon();
  }

  /** Writes the gathered events and gives the lease back. */
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
        await this.consume(lease, until);
      } catch (error) {
        withdraw();
        await this.afterFailure(error, lease, until);
      }
      this.state = 'standby';
      await lease.release();
      this.owner.moved();
    }
  }

  /** Another process may hold the lease from now on, and a crash of the database may have taken back the rows that were written last. */
  private readonly standBy = (): void => {
    if (this.state !== 'live') return;
    this.state = 'standby';
    this.owner.moved();
  };

  private async afterFailure(error: unknown, lease: Lease, until: AbortSignal): Promise<void> {
    if (until.aborted) return;
    const { name } = this.projection;
    if (error instanceof UnknownEvent) return this.yieldToNewerProgram(error, lease);
    if (error instanceof PoisonEvent) {
      this.logger.error(
        `The projection ${name} stopped at an event that it can't take in, its rows stay as they are: ${error.message}`,
        error.stack,
      );
      this.state = 'failed';
      this.owner.moved();
      const told = this.registry.setState(this.projection, lease.epoch, 'failed', error.message.slice(0, 500));
      await told.catch((reason: Error) => this.logger.warn(reason.message));
      // The lease is kept, since another replica would fail at the same event. Only a rebuild may help.
      return this.serveOrders(lease, until, noLiveTable, true).catch((reason: Error) => this.logger.warn(reason.message));
    }
    this.logger.warn(`The projection ${name} goes on in ${this.backoff.ms} ms: ${(error as Error).message}`);
    await this.backoff.pause(until);
  }

  /**
   * Stops and gives the lease back, so that a newer program that shares the rows and can read the event takes over. The rows stay as they
   * are.
   */
  private async yieldToNewerProgram(error: UnknownEvent, lease: Lease): Promise<void> {
    const { name } = this.projection;
    this.logger.error(
      `The projection ${name} stopped, its rows stay as they are, and this program is not ready any more: ${error.message}`,
    );
    this.outdatedBy = error.message;
    this.state = 'failed';
    this.owner.moved();
    const told = this.registry.setState(this.projection, lease.epoch, 'failed', error.message.slice(0, 500), true);
    await told.catch((reason: Error) => this.logger.warn(reason.message));
    await lease.release();
    await pause(OUTDATED_RETRY_MS, this.stopping.signal);
  }

  private async consume(lease: Lease, until: AbortSignal): Promise<void> {
    const { projection } = this;
    await this.ensureTable();
    let stored = await this.registry.claim(projection, lease.epoch);
    this.filled = stored.filled;
    await this.registry.dropLeftovers(projection);
    if (!stored.filled) {
      await this.fill(lease, until);
      if (until.aborted) return;
      stored = await this.registry.claim(projection, lease.epoch);
    }
    this.filled = true;
    this.outdatedBy = null;
    await this.registry.setState(projection, lease.epoch, 'running', null);
    this.table = new ReadModelTable(this.parts.database, projection, tableOf(projection), lease.epoch, stored.position);
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
    if ((await isRebuildFaster(parts.store, projection, table)) && (await this.refill(lease, until))) return;
    this.logger.log(`${projection.name} is far behind and catches up in bulk`);
    await parts.catchUps.run(() => catchUpInBulk(parts.store, projection, table, until, () => this.moveTo(table.position)));
    this.backoff.reset();
  }

  /**
   * Rebuilds the rows beside the serving ones. Returns false if an event can't be taken in; the serving rows then catch up to that event.
   */
  private async refill(lease: Lease, until: AbortSignal): Promise<boolean> {
    this.logger.log(`${this.projection.name} is far behind and is made anew`);
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
    const gathered = new GatheredEvents(
      (events, upTo) => this.write(events, upTo),
      () => this.owner.isAwaited(),
    );
    this.gathered = gathered;
    const { concerns = () => true, filter } = this.projection;
    const onBatch = async (events: StoredEvent[], upTo: Position) => {
      const concerning = events.filter(concerns);
      if (concerning.length > 0 || !this.moveQuietly(gathered, upTo)) await gathered.add(concerning, upTo);
      if (events.length >= FULL_BATCH && (await isFarBehind(this.parts.store, this.projection, this.table)))
        over.abort(new Error('the log runs away'));
    };
    const onQuiet: QuietHandler = (events, upTo) => !events.some(concerns) && this.moveQuietly(gathered, upTo);
    const subscription = this.parts.store.subscribe(this.table.position, filter, onBatch, onQuiet);
    const orders = this.serveOrders(lease, AbortSignal.any([until, over.signal]), this.withWritesPaused, false);
    try {
      await Promise.race([subscription.ended, gathered.failed, orders, aborted(until), aborted(over.signal)]);
    } finally {
      over.abort(new Error('the consumer ended'));
      await orders.catch(() => undefined);
      // If it rejects, then with the error that was just thrown.
      await subscription.stop().catch(() => undefined);
      subscription.ended.catch(() => undefined);
      // Events that can't be written any more are read again.
      await gathered.flush().catch((error: Error) => this.logger.debug(error.message));
      this.gathered = null;
      await this.writeQuietly();
    }
  }

  /**
   * Moves over events that do not concern the projection, of which most events concern few: a write for each of the others would cost more than
   * the events themselves. Returns false if events before them are not in the table yet.
   */
  private moveQuietly(gathered: GatheredEvents, upTo: Position): boolean {
    if (!gathered.isWritten) return false;
    this.quietWrite ??= setTimeout(() => void this.writeQuietly(), QUIET_WRITE_MS);
    if (upTo > this.position) this.moveTo(upTo);
    return true;
  }

  private async write(events: StoredEvent[], upTo: Position): Promise<void> {
    const write = async () => {
      // A rebuild may have read further than this subscription had come, and so some events are in the table already.
      const missing = events.filter(({ position }) => position > this.table.position);
      if (upTo > this.table.position) await this.table.take(missing, upTo);
    };
    // If the batch has a poison event, the events before it are in the table.
    await this.inTurn(write).finally(() => this.moveTo(this.table.position));
    this.backoff.reset();
  }

  private async writeQuietly(): Promise<void> {
    if (this.quietWrite === null) return;
    clearTimeout(this.quietWrite);
    this.quietWrite = null;
    // If this fails, only events that do not concern the projection are read once more.
    const write = async () => {
      if (this.position > this.table.position) await this.table.take([], this.position);
    };
    await this.inTurn(write).catch((error: Error) => this.logger.debug(error.message));
  }

  /** Swaps the tables between two writes of the followed log. */
  private readonly withWritesPaused: WithWritesPaused = (swap) =>
    this.inTurn(async () => {
      this.table = await swap(this.table.position);
    });

  /** Runs one write at a time, since each names the position that the one before left. */
  private inTurn(work: () => Promise<void>): Promise<void> {
    const done = this.turn.then(work);
    this.turn = done.catch(() => undefined);
    return done;
  }

  private moveTo(position: Position): void {
    this.position = position;
    this.owner.moved();
  }

  /** Builds the rows of this version, beside those of another version if there are any. */
  private async fill(lease: Lease, until: AbortSignal): Promise<void> {
    const { projection } = this;
    const reason = (await this.registry.hasOtherVersion(projection)) ? 'version' : 'empty';
    this.logger.log(`${projection.name} is filled for version ${projection.version}`);
    await this.registry.setState(projection, lease.epoch, 'rebuilding', null);
    try {
      await this.rebuild({ id: uuidv7(), reason }, lease, until, noLiveTable);
    } catch (error) {
      // Programs of the other version go on with their rows, and this one is not ready.
      if (reason === 'version' || !(error instanceof PoisonEvent)) throw error;
      // The only rows are those up to that event. They are better than none, and following the log stops at the event once more.
      await this.registry.setFilled(projection);
    }
  }

  /** Carries out the ordered rebuilds until the signal aborts or, with `once`, until one has succeeded. */
  private serveOrders(lease: Lease, until: AbortSignal, withWritesPaused: WithWritesPaused, once: boolean): Promise<void> {
    return this.orders.serve((rebuildId, signal) => this.rebuildAsOrdered(rebuildId, lease, signal, withWritesPaused), until, once);
  }

  /** If the rows of this rebuild serve already, only the record of it was interrupted and is missing. */
  private async rebuildAsOrdered(rebuildId: string, lease: Lease, until: AbortSignal, withWritesPaused: WithWritesPaused): Promise<void> {
    const { rebuildId: last } = await this.registry.claim(this.projection, lease.epoch);
    if (last === rebuildId) return;
    const wasLive = this.state === 'live';
    try {
      if (wasLive) await this.registry.setState(this.projection, lease.epoch, 'rebuilding', null);
      await this.rebuild({ id: rebuildId, reason: 'requested' }, lease, until, withWritesPaused);
    } finally {
      if (wasLive) await this.registry.setState(this.projection, lease.epoch, 'running', null);
    }
  }

  private async rebuild(order: RebuildOrder, lease: Lease, until: AbortSignal, withWritesPaused: WithWritesPaused): Promise<void> {
    const rebuild = new ProjectionRebuild(this.parts, this.projection, lease.epoch);
    const { events, eventsPerSecond } = await rebuild.run(order, until, withWritesPaused);
    this.filled = true;
    this.logger.log(`${this.projection.name} was rebuilt from ${events} events, ${eventsPerSecond ?? 0} a second`);
  }
}

/** The change-over if nothing writes the serving table meanwhile. */
const noLiveTable: WithWritesPaused = async (swap) => void (await swap(START));
