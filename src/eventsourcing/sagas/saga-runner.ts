/**
 * Runs one saga for the keys in the shards that this process holds.
 *
 * Owns: the saga's queue, its deadlines in memory, and what is known of each held shard. Does not own the leases of the shards
 * (`ShardLeases`) or which replica holds which shard. A saga needs no checkpoint, because a pass reads the whole state of its key.
 *
 * R1  No key that needs work is missed. After a shard is acquired, its keys are found by `resync` in the read models, by reading the events
 *     that the read models may not show yet, and by overdue deadlines. From then on the log brings the keys of new events.
 * R2  A pass acts only under a valid lease of its key's shard. It checks the lease before each side effect, since a process that was
 *     suspended may have lost it before any timer fires.
 * R3  A released shard has no running pass: passes are aborted and awaited before another replica may acquire the shard. A pass that
 *     ignores the abort does no harm, since its events are fenced by the revision that it read, and its deadlines by the lease.
 * R4  The first pass over a key reads state that includes every event up to the log's head at the time when its shard was acquired.
 */
import { Logger } from '@nestjs/common';

import { Backoff } from '../../kernel/async/retry.ts';
import type { Clock } from '../../kernel/clock.ts';
import type { Database } from '../../postgres/database/database.ts';
import { matches, type Position, type StoredEvent } from '../event-store/event-store.ts';
import type { LogFollower } from '../log/log-follower.ts';
import { isOutage } from '../event-store/outage.ts';
import type { Intervals } from '../../kernel/config/intervals.ts';
import type { Lease } from '../../postgres/leases/leases.ts';
import { Deadlines } from './deadlines.ts';
import { KeyedQueue, type KeyedQueueStats, type Run } from './keyed-queue.ts';
import type { Saga } from './saga.ts';
import { shardOf } from './shards.ts';
import type { UnprojectedEvents } from './unprojected-events.ts';

/** The longest pause before a failed take-over is retried, in ms. The first is that of every retry of a saga, and each doubles it. */
const TAKEOVER_RETRY_MS_MAX = 30_000;

/** The oldest container list that a regular resync accepts, in ms: all sagas resync at about the same time and share one list. */
const LIST_AGE_MS_MAX = 5_000;

/** The services that a saga runner uses. */
export interface SagaTools {
  database: Database;
  clock: Clock;
  unprojected: UnprojectedEvents;
  follower: LogFollower;
  intervals: Intervals;
}

/** A shard on whose keys this process works. */
interface Shard {
  lease: Lease;
  /** R4: The log's head when the shard was acquired, up to which every event has arrived; undefined if the store did not answer. */
  seenUpTo: Position | undefined;
}

/** The runner of one saga in this process. See R1 to R4. */
export class SagaRunner {
  private readonly logger = new Logger('Sagas');
  private readonly stopping = new AbortController();
  private readonly queue: KeyedQueue;
  private readonly deadlines: Deadlines;
  private readonly shards = new Map<number, Shard>();

  constructor(
    readonly saga: Saga,
    private readonly tools: SagaTools,
  ) {
    const { name, concurrency } = saga;
    this.deadlines = new Deadlines(name, tools.database, tools.clock, (key) => this.wake(key, null));
    this.queue = new KeyedQueue({
      concurrency,
      firstRetryMs: tools.intervals.sagaRetryMs,
      run: (run) => this.runPass(run),
      isOutage,
      onFailure: (key, error, retryInMs) =>
        this.logger.warn(`The saga ${name} failed for ${key} and tries again in ${Math.round(retryInMs)} ms: ${(error as Error).message}`),
    });
  }

  /**
   * Wakes the key, unless another process holds its shard: that process receives the event from the log itself. Returns false if the wake
   * was dropped.
   */
  wake(key: string, account: string | null): boolean {
    return !this.shards.has(shardOf(key)) || this.queue.wake(key, account);
  }

  onEvents(events: readonly StoredEvent[]): void {
    for (const event of events.filter(matches(this.saga.filter))) {
      const key = this.keyOf(event);
      if (key !== null) this.wake(key, event.metadata.account_id);
    }
  }

  stats(): KeyedQueueStats {
    return this.queue.stats();
  }

  /** Returns the shards of the keys that have a pass now. */
  busyShards(): Set<number> {
    return new Set([...this.queue.running()].map(shardOf));
  }

  /** Starts to work on the keys in these shards, until the shards are released or their leases are lost. */
  async takeOver(taken: ReadonlyMap<number, Lease>): Promise<void> {
    const left = () => new Map([...taken].filter(([, { signal }]) => !signal.aborted && !this.stopping.signal.aborted));
    const takenAt = performance.now();
    const backoff = new Backoff({ firstMs: this.tools.intervals.sagaRetryMs, lastMs: TAKEOVER_RETRY_MS_MAX });
    for (let shards = left(); shards.size > 0; shards = left()) {
      try {
        await this.deadlines.load(shards);
        const seenUpTo = (await this.tools.follower.catchUpToHead().catch(() => null)) ?? undefined;
        for (const [shard, lease] of left()) this.shards.set(shard, { lease, seenUpTo });
        this.deadlines.reportDue();
        if (await this.queueMissed(shards, takenAt)) return;
      } catch (error) {
        this.logger.warn(`The saga ${this.saga.name} could not start on its shards and tries again: ${(error as Error).message}`);
      }
      await backoff.pause(this.stopping.signal);
    }
  }

  /** Finds and queues the keys whose signals were lost. Returns false if that failed. */
  async resync(): Promise<boolean> {
    if (this.shards.size === 0 || this.stopping.signal.aborted) return true;
    try {
      await this.queueFoundByResync(this.shards, LIST_AGE_MS_MAX);
      return true;
    } catch (error) {
      this.logger.warn(`The saga ${this.saga.name} could not resync: ${(error as Error).message}`);
      return false;
    }
  }

  /** R3: Aborts the passes over keys in these shards, waits for them, and stops working on the shards. */
  async releaseShards(shards: ReadonlySet<number>): Promise<void> {
    for (const shard of shards) this.shards.delete(shard);
    const concerns = (key: string) => shards.has(shardOf(key));
    this.deadlines.drop(concerns);
    this.warnStillRunning(await this.queue.drop(concerns));
    // Passes that ended meanwhile may have set deadlines.
    this.deadlines.drop((key) => concerns(key) && !this.shards.has(shardOf(key)));
  }

  /** Aborts all passes and waits for them. */
  async stop(): Promise<void> {
    this.stopping.abort();
    this.deadlines.stop();
    this.warnStillRunning(await this.queue.stop());
  }

  /**
   * R3: Logs the runs that ignored the abort. Their events are fenced by the revision that they read, and their deadlines by the lease's
   * epoch.
   */
  private warnStillRunning(stillRunning: string[]): void {
    if (stillRunning.length > 0)
      this.logger.error(`The saga ${this.saga.name} released its shards, but its runs of ${stillRunning.join(', ')} ignore the abort`);
  }

  private async runPass({ key, isRepeat, signal, withoutSlot, setAccount }: Run): Promise<void> {
    const shard = this.shards.get(shardOf(key));
    if (shard === undefined) return;
    const { lease } = shard;
    const assertLease = () => {
      signal.throwIfAborted();
      // R2: A process that was suspended finds out here, before any timer fires.
      if (!lease.valid) throw new Error('the lease has expired');
    };
    assertLease();
    const seenUpTo = isRepeat ? undefined : shard.seenUpTo;
    const dueAt = await this.saga.reconcile(key, { seenUpTo, signal, handover: lease.signal, assertLease, withoutSlot, setAccount });
    await this.deadlines.set(key, dueAt, lease);
  }

  /**
   * R1: Queues the keys that need work after a take-over. Returns false if the read models lack too many events to read them one by one.
   */
  private async queueMissed(shards: ReadonlyMap<number, Lease>, takenAt: number): Promise<boolean> {
    const { filter } = this.saga;
    const reached = await this.tools.unprojected.oldestCheckpoint(filter);
    await this.queueFoundByResync(shards, performance.now() - takenAt);
    if (reached === null) return true;
    const unseen = await this.tools.unprojected.after(reached, filter);
    for await (const events of unseen ?? []) this.onEvents(events);
    return unseen !== null;
  }

  private async queueFoundByResync(shards: ReadonlyMap<number, unknown>, maxAgeMs: number): Promise<void> {
    for (const { key, account } of await this.saga.resync(maxAgeMs)) {
      const shard = shardOf(key);
      if (shards.has(shard) && this.shards.has(shard)) this.queue.remind(key, account);
    }
  }

  private keyOf(event: StoredEvent): string | null {
    try {
      return this.saga.keyOf(event);
    } catch (error) {
      // A resync finds the key; the other keys must not wait for it.
      this.logger.error(
        `The saga ${this.saga.name} failed to compute the key of ${event.type} at ${event.position}`,
        (error as Error).stack,
      );
      return null;
    }
  }
}
