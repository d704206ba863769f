import type { BeforeApplicationShutdown, OnApplicationBootstrap } from '@nestjs/common';
import { Injectable } from '@nestjs/common';

import { pause } from '../../kernel/async/pause.ts';
import { Intervals } from '../../kernel/config/intervals.ts';
import { LogFollower } from '../log/log-follower.ts';
import type { Lease } from '../../postgres/leases/leases.ts';
import type { KeyedQueueStats } from './keyed-queue.ts';
import { type Saga, Sagas } from './saga.ts';
import { RESYNC_EVERY_MS, pauseAfter } from './resync-pause.ts';
import type { SagaRunner } from './saga-runner.ts';
import { SagaRunners } from './saga-runners.ts';
import { type ShardHolder, ShardLeases } from './shard-leases.ts';

/**
 * The sagas of this process. Features register theirs in `onModuleInit`. From the bootstrap on they work on the keys in the shards that
 * this process holds.
 */
@Injectable()
export class DurableSagas extends Sagas implements ShardHolder, OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly runners = new Map<string, SagaRunner>();
  private readonly leases = new Map<number, Lease>();
  private readonly stopping = new AbortController();
  /** The lost shards that the runners have not dropped yet; they drop all of them together. */
  private lostShards = new Set<number>();
  private stopListening: () => void = () => undefined;
  private holdingShards: Promise<void> = Promise.resolve();

  constructor(
    private readonly makers: SagaRunners,
    private readonly follower: LogFollower,
    private readonly shards: ShardLeases,
    private readonly intervals: Intervals,
  ) {
    super();
  }

  /** Registers a saga; it must be called before the application's bootstrap. Throws if its name is taken. */
  override register(saga: Saga): void {
    if (this.runners.has(saga.name)) throw new Error(`the saga ${saga.name} is registered twice`);
    this.runners.set(saga.name, this.makers.of(saga));
  }

  override wake(saga: string, key: string, account?: string): void {
    const runner = this.runners.get(saga);
    if (runner === undefined) throw new Error(`there is no saga ${saga}`);
    runner.wake(key, account ?? null);
  }

  /** Returns the counts of each saga's queue in this process, by the saga's name. */
  stats(): Record<string, KeyedQueueStats> {
    return Object.fromEntries([...this.runners].map(([name, runner]) => [name, runner.stats()]));
  }

  /** The number of the 64 shards that this process holds. */
  get shardCount(): number {
    return this.shards.count;
  }

  onApplicationBootstrap(): void {
    // The listener is added before any shard is acquired, so no event that is appended from then on is missed.
    this.stopListening = this.follower.listen({
      onEvents: (events) => this.all.forEach((runner) => runner.onEvents(events)),
      onGap: () => this.takeOver(this.leases),
    });
    void this.resyncRegularly();
    this.holdingShards = this.shards.hold(this, this.stopping.signal);
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.stopListening();
    this.stopping.abort();
    await Promise.all(this.all.map((runner) => runner.stop()));
    await this.holdingShards;
  }

  onAcquired(leases: ReadonlyMap<number, Lease>): void {
    for (const [shard, lease] of leases) this.leases.set(shard, lease);
    this.takeOver(leases);
  }

  onLost(shard: number): void {
    if (this.lostShards.size === 0) queueMicrotask(() => void this.releaseShards(this.lostShards));
    this.lostShards.add(shard);
  }

  busyShards(): Set<number> {
    return new Set(this.all.flatMap((runner) => [...runner.busyShards()]));
  }

  async releaseShards(shards: ReadonlySet<number>): Promise<void> {
    if (shards === this.lostShards) this.lostShards = new Set();
    for (const shard of shards) this.leases.delete(shard);
    await Promise.all(this.all.map((runner) => runner.releaseShards(shards)));
  }

  private get all(): SagaRunner[] {
    return [...this.runners.values()];
  }

  /** Resyncs all sagas together, so that they share one container list. */
  private async resyncRegularly(): Promise<void> {
    const { signal } = this.stopping;
    for (let restMs = RESYNC_EVERY_MS; !signal.aborted;) {
      await pause(restMs, signal);
      const began = performance.now();
      const failed = await this.resync(this.all);
      restMs = pauseAfter(performance.now() - began);
      if (failed.length > 0) {
        await pause(this.intervals.sagaRetryMs, signal);
        await this.resync(failed);
      }
    }
  }

  /** Returns the sagas whose resync failed. */
  private async resync(runners: SagaRunner[]): Promise<SagaRunner[]> {
    const went = await Promise.all(runners.map((runner) => runner.resync()));
    return runners.filter((_, n) => went[n] !== true);
  }

  private takeOver(leases: ReadonlyMap<number, Lease>): void {
    for (const runner of this.all) void runner.takeOver(leases);
  }
}
