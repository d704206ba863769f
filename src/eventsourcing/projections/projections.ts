/**
 * The read models of this process, and the reads that wait for them.
 *
 * Owns: one runner for each registered projection, the newest position that each is known to have reached, and the waiting reads. Does not
 * own how rows are written (`ProjectionRunner`) or rebuilt (`ProjectionRebuild`).
 *
 * P1  A waiting read goes on only once the rows of its position are in the table, on whichever replica they were written.
 * P2  A known position counts only during the database session in which it was learned. Rows are committed without a flush to disk, so a
 *     crash of the database may take back the last of them; the crash also ends the session of the leases (decisions/0043).
 * P3  A projection that this replica does not run itself is polled with one small query at a time for all waiting reads, and only while
 *     there are some: a NOTIFY with each batch would slow down every append.
 * P4  The number of waiting reads is bounded, and each ends after its timeout, when its projection stops, and when the service stops.
 * P5  Rebuilds are ordered in the log. Every replica reads the orders there, and the holder of the projection's lease executes them.
 */
import type { BeforeApplicationShutdown } from '@nestjs/common';
import { Injectable } from '@nestjs/common';
import type pg from 'pg';

import { Database } from '../../postgres/database/database.ts';
import { Aggregates } from '../aggregates/aggregates.ts';
import {
  onlyEvents,
  type EventClass,
  type EventFilter,
  EventStore,
  idOf,
  START,
  type Position,
  type Subscription,
  type StoredEvent,
} from '../event-store/event-store.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { Leases } from '../../postgres/leases/leases.ts';
import { LogPasses, WRITERS } from './rebuild/log-pass.ts';
import { type Projection, type ReadModelProgress, ReadModels, tableOf } from './projection.ts';
import type { RebuildParts } from './rebuild/projection-rebuild.ts';
import { SerialQueue } from '../../kernel/async/serial-queue.ts';
import { ProjectionRegistry, type ProjectionStatus } from './tables/projection-registry.ts';
import { ProjectionRunner } from './live/projection-runner.ts';
import { checkTable } from './tables/projection-sql.ts';
import { type Comparison, compareWithLog } from './verify/projection-verification.ts';
import { RebuildOrders } from './rebuild/rebuild-orders.ts';
import { runningRebuilds, type RebuildProgress } from './rebuild/rebuild-progress.ts';

const REACHED_TIMEOUT_MS = 5_000;
/** P3: The interval at which a replica polls checkpoints that another one moves, while a read waits for one of them, in ms. */
const POLL_INTERVAL_MS = 20;
/** The first position after `START`. A read model that is being filled stays at `START` until it is done. */
const FIRST: Position = START.replace(/0$/, '1');
const WAITERS_MAX = 10_000;
/** The number of events by which a read model may be behind and still count as caught up. */
const NEAR_EVENTS = 1_000;
/** The connections for rebuilds, and one for a comparison. */
const BULK_CONNECTIONS = WRITERS + 1;

interface Waiter {
  position: Position;
  /** The value is true if the read can continue without the projection once that has stopped. */
  isOptional: boolean;
  settle(refusal: ProblemError | null): void;
}

/** The state of one projection as this process knows it. */
interface ProjectionEntry {
  runner: ProjectionRunner;
  /** The newest position that any process is known to have reached. */
  reached: Position;
  /** P2: The session of the leases in which `known` was learned. */
  reachedInSession: string | null;
  waiters: Set<Waiter>;
  /** The value is true once it has been near the end of the log since this process started. */
  caughtUp: boolean;
}

/** The read models of this process. Features register theirs in `onModuleInit`. They follow the log from the bootstrap on. */
@Injectable()
export class Projections extends ReadModels implements BeforeApplicationShutdown {
  private readonly registry: ProjectionRegistry;
  private readonly entries = new Map<string, ProjectionEntry>();
  private waiting = 0;
  private polling = false;
  private stopped = false;
  private readonly parts: RebuildParts;
  private bulkPool: pg.Pool | null = null;
  private orders: Subscription | null = null;

  constructor(
    private readonly database: Database,
    private readonly store: EventStore,
    private readonly leases: Leases,
    private readonly aggregates: Aggregates,
    passes: LogPasses,
  ) {
    super();
    this.registry = new ProjectionRegistry(database);
    this.parts = {
      database,
      store,
      passes,
      pool: () => (this.bulkPool ??= database.openPool('rebuilds', BULK_CONNECTIONS, { statement_timeout: 0, lock_timeout: 0 })),
      comparisons: new SerialQueue(),
      catchUps: new SerialQueue(),
    };
  }

  /**
   * Registers a projection; it must be called before `start`. Throws if its name is taken, or its table's definition
   * is invalid.
   */
  register(projection: Projection): void {
    checkTable(projection);
    if (this.entries.has(projection.name)) throw new Error(`the projection ${projection.name} is registered twice`);
    const orders = new RebuildOrders(this.aggregates, tableOf(projection));
    const owner = { onProgress: () => this.onProgress(entry), isAwaited: () => entry.waiters.size > 0 };
    const entry: ProjectionEntry = {
      runner: new ProjectionRunner(projection, this.parts, this.leases, orders, owner),
      reached: START,
      reachedInSession: null,
      waiters: new Set(),
      caughtUp: false,
    };
    this.entries.set(projection.name, entry);
  }

  /** Returns the names of the projections that follow the class. */
  names(eventClass: EventClass): string[] {
    return [...this.entries].filter(([, { runner }]) => runner.projection.filter.eventClass === eventClass).map(([name]) => name);
  }

  /** Returns the tables that this program reads. */
  tables(): string[] {
    return [...this.entries.values()].map(({ runner }) => tableOf(runner.projection));
  }

  /** Resolves when all tables exist; the projections follow the log from then on. After a failure it may be called again. */
  async start(): Promise<void> {
    await Promise.all([...this.entries.values()].map(({ runner }) => runner.start()));
    this.followOrders();
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.stopped = true;
    for (const entry of this.entries.values())
      for (const waiter of entry.waiters) waiter.settle(behindError(entry, 'the service is stopping'));
    await this.orders?.stop();
    await Promise.all([...this.entries.values()].map(({ runner }) => runner.stop()));
  }

  has(projection: string): boolean {
    return this.entries.has(projection);
  }

  /** Returns the running rebuilds of this program's tables, on any replica, by projection. */
  async rebuilds(): Promise<Map<string, RebuildProgress>> {
    const all = new Map((await runningRebuilds(this.database)).map((progress) => [progress.table, progress]));
    return new Map(
      [...this.entries].flatMap(([name, { runner }]) => {
        const progress = all.get(tableOf(runner.projection));
        return progress === undefined ? [] : [[name, progress]];
      }),
    );
  }

  /** Returns the subject of the projection's rebuild orders; their stream is `projection-<subject>`. */
  subjectOf(projection: string): string {
    return tableOf(this.entryOf(projection).runner.projection);
  }

  /**
   * Folds the log into tables of its own and compares them with the serving rows as of the same position, without disturbing readers or
   * writers. Throws ProblemError `invalid_state` if the table is not filled for this version.
   */
  verify(projection: string): Promise<Comparison> {
    const { runner } = this.entryOf(projection);
    return compareWithLog(this.parts, runner.projection);
  }

  /** Returns how much of the log the projection has not applied. */
  async lag(projection: string): Promise<{ head: Position; events: number; seconds: number }> {
    const { runner, reached: known } = this.entryOf(projection);
    const { eventClass } = runner.projection.filter;
    const head = await this.store.head(eventClass);
    if (known >= head) return { head, events: 0, seconds: 0 };
    const { events, since } = await this.store.lag(known, eventClass);
    return { head, events, seconds: since === null ? 0 : Math.max(0, Date.now() - Date.parse(since)) / 1_000 };
  }

  override filterOf(projection: string): EventFilter {
    return this.entryOf(projection).runner.projection.filter;
  }

  override async waitUntilFilled(projection: string): Promise<void> {
    const { runner } = this.entryOf(projection);
    // Another replica may have filled it.
    if (!runner.filled) await this.status();
    if (!runner.filled) await this.waitFor(projection, FIRST);
  }

  override async progress(): Promise<ReadModelProgress[]> {
    const [statuses, rebuilds] = await Promise.all([this.status(), this.rebuilds()]);
    return Promise.all(
      statuses.map(async ({ name, filled, error, status, outdated }) => {
        const entry = this.entryOf(name);
        const lag = entry.caughtUp ? 0 : (await this.lag(name)).events;
        if (filled && lag <= NEAR_EVENTS) entry.caughtUp = true;
        const rebuild = rebuilds.get(name);
        const folded = rebuild === undefined ? 0 : progressRatio(rebuild);
        const outdatedBy = entry.runner.outdatedBy ?? (outdated ? error : null);
        if (outdatedBy !== null) return { name, ready: false, serving: filled, reason: outdatedBy };
        if (status === 'failed') return { name, ready: filled, serving: false, reason: `stopped: ${error}` };
        if (!filled) return { name, ready: false, serving: false, reason: `is being filled: ${Math.floor(folded * 100)} %` };
        if (!entry.caughtUp)
          return {
            name,
            ready: false,
            serving: true,
            reason:
              rebuild === undefined ? `catches up: ${lag} events are left` : `is far behind and made anew: ${Math.floor(folded * 100)} %`,
          };
        return { name, ready: true, serving: true, reason: null };
      }),
    );
  }

  override async waitFor(projection: string, position: Position, timeoutMs = REACHED_TIMEOUT_MS): Promise<void> {
    const refusal = await this.wait(this.entryOf(projection), position, timeoutMs, false);
    if (refusal !== null) throw refusal;
  }

  override async waitIfRunning(projection: string, position: Position): Promise<void> {
    await this.wait(this.entryOf(projection), position, REACHED_TIMEOUT_MS, true);
  }

  /** Returns the newest position that this process knows the projection to have reached, or `START` while that is in doubt. */
  checkpoint(projection: string): Position {
    const entry = this.entryOf(projection);
    return this.isInDoubt(entry) ? START : entry.reached;
  }

  /** Returns the position and the state of each projection registered here. */
  async status(): Promise<ProjectionStatus[]> {
    const { sessionId } = this.leases;
    const all = await this.registry.status();
    // P2: A result that was read while the session ended, or while there was none, may be older than the crash that ended it.
    const isCurrent = sessionId !== null && sessionId === this.leases.sessionId;
    return all.flatMap((stored) => {
      const entry = this.entries.get(stored.name);
      if (entry === undefined || entry.runner.projection.version !== stored.version) return [];
      if (stored.filled) entry.runner.filled = true;
      if (isCurrent) this.noteReached(entry, stored.position);
      // It failed on another replica, or here before the last start, and may run again soon. Only reads that can do without it stop
      // waiting.
      if (stored.status === 'failed') for (const waiter of entry.waiters) if (waiter.isOptional) waiter.settle(stoppedError(entry));
      return [{ ...stored, position: entry.reached }];
    });
  }

  /** P5: Notifies the runners of new rebuild orders in the log. */
  private followOrders(): void {
    const filter = { eventClass: 'core', categories: ['projection'] } as const;
    const follow = (head: Position) => {
      if (this.stopped) return;
      const onBatch = async (events: StoredEvent[]) => {
        const subjects = new Set(events.map(({ stream }) => idOf(stream)));
        for (const { runner } of this.entries.values()) if (subjects.has(tableOf(runner.projection))) runner.orders.notify();
      };
      this.orders = this.store.subscribe(head, filter, onBatch, onlyEvents);
      for (const { runner } of this.entries.values()) runner.orders.notify();
    };
    // If the store is unavailable, the runners still look for orders every 30 s.
    this.store.head('core').then(follow, () => undefined);
  }

  private entryOf(projection: string): ProjectionEntry {
    const entry = this.entries.get(projection);
    if (entry === undefined) throw new Error(`there is no projection ${projection}`);
    return entry;
  }

  private async wait(entry: ProjectionEntry, position: Position, timeoutMs: number, isOptional: boolean): Promise<ProblemError | null> {
    const isInDoubt = this.isInDoubt(entry);
    if (position <= entry.reached && !isInDoubt) return null;
    if (this.stopped) return behindError(entry, 'the service is stopping');
    if (entry.runner.state === 'failed' && !isInDoubt) return stoppedError(entry);
    if (this.waiting >= WAITERS_MAX) return behindError(entry, 'too many reads wait already');
    return new Promise((resolve) => {
      const timer = setTimeout(() => waiter.settle(behindError(entry, `it was not there within ${timeoutMs} ms`)), timeoutMs);
      const waiter: Waiter = {
        position,
        isOptional,
        settle: (refusal) => {
          clearTimeout(timer);
          if (entry.waiters.delete(waiter)) this.waiting -= 1;
          resolve(refusal);
        },
      };
      entry.waiters.add(waiter);
      this.waiting += 1;
      entry.runner.flushSoon();
      this.pollWhileNeeded();
    });
  }

  private onProgress(entry: ProjectionEntry): void {
    if (entry.runner.state === 'failed') for (const waiter of entry.waiters) waiter.settle(stoppedError(entry));
    else if (entry.runner.state === 'live') this.noteReached(entry, entry.runner.position);
    this.pollWhileNeeded();
  }

  /** P2: Returns whether the rows of the known position may be gone. */
  private isInDoubt({ reachedInSession: knownIn }: ProjectionEntry): boolean {
    return knownIn === null || knownIn !== this.leases.sessionId;
  }

  /**
   * P1, P2: Notes the position and lets the reads that waited for it go on. A position learned in doubt may be older than the known one.
   */
  private noteReached(entry: ProjectionEntry, position: Position): void {
    if (position <= entry.reached && !this.isInDoubt(entry)) return;
    entry.reached = position;
    entry.reachedInSession = this.leases.sessionId;
    for (const waiter of entry.waiters) if (waiter.position <= position) waiter.settle(null);
  }

  /** P3: Polls the checkpoints while a read waits for a projection that this process does not run, or whose position is in doubt. */
  private pollWhileNeeded(): void {
    if (this.polling || this.stopped) return;
    const needed = [...this.entries.values()].some(
      (entry) => entry.waiters.size > 0 && (entry.runner.state === 'standby' || this.isInDoubt(entry)),
    );
    if (!needed) return;
    this.polling = true;
    setTimeout(() => {
      this.status()
        .catch(() => undefined)
        .finally(() => {
          this.polling = false;
          this.pollWhileNeeded();
        });
    }, POLL_INTERVAL_MS);
  }
}

function stoppedError(entry: ProjectionEntry): ProblemError {
  return behindError(entry, 'it stopped at an event that it can not apply');
}

function behindError({ runner }: ProjectionEntry, why: string): ProblemError {
  return new ProblemError('read_model_behind', `The read model ${runner.projection.name} does not show that position yet: ${why}.`, {
    retryAfterSeconds: 1,
  });
}

/** Returns the fraction of its log that a rebuild has folded, from 0 to 1, estimated from positions. */
export function progressRatio({ phase, position, target }: RebuildProgress): number {
  if (phase !== 'folding') return phase === 'waiting' ? 0 : 1;
  const [done, all] = [BigInt(position), BigInt(target)];
  return all === 0n ? 1 : Math.min(1, Number((done * 10_000n) / all) / 10_000);
}
