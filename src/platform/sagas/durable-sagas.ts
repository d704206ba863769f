import type { BeforeApplicationShutdown, OnApplicationBootstrap } from '@nestjs/common';
import { Injectable } from '@nestjs/common';

import { Clock } from '../clock.ts';
import { Database } from '../database/database.ts';
import { LogFollower } from '../event-store/log-follower.ts';
import type { Lease } from '../projections/leases.ts';
import type { KeyedQueueStats } from './keyed-queue.ts';
import { type Saga, Sagas } from './saga.ts';
import { SagaRunner, type SagaTools } from './saga-runner.ts';
import { type ShardHolder, ShardLeases } from './shard-leases.ts';
import { UnseenEvents } from './unseen-events.ts';

/**
 * The sagas of this process. Features register theirs in `onModuleInit`; from the bootstrap on they work on the keys in the shards that
 * this process holds.
 */
@Injectable()
export class DurableSagas extends Sagas implements ShardHolder, OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly tools: SagaTools;
  private readonly runners = new Map<string, SagaRunner>();
  private readonly leases = new Map<number, Lease>();
  private readonly stopping = new AbortController();
  /** Shards that were lost and are still to be told to the runners, all together. */
  private lost = new Set<number>();
  private stopListening: () => void = () => undefined;
  private holding: Promise<void> = Promise.resolve();

  constructor(
    database: Database,
    clock: Clock,
    unseen: UnseenEvents,
    private readonly follower: LogFollower,
    private readonly shards: ShardLeases,
  ) {
    super();
    this.tools = { database, clock, unseen };
  }

  /** Before the application's bootstrap. */
  override register(saga: Saga): void {
    if (this.runners.has(saga.name)) throw new Error(`the saga ${saga.name} is registered twice`);
    this.runners.set(saga.name, new SagaRunner(saga, this.tools));
  }

  override wake(saga: string, key: string, account?: string): void {
    const runner = this.runners.get(saga);
    if (runner === undefined) throw new Error(`there is no saga ${saga}`);
    runner.wake(key, account ?? null);
  }

  /** Answers what each saga has to do in this process, by its name. */
  stats(): Record<string, KeyedQueueStats> {
    return Object.fromEntries([...this.runners].map(([name, runner]) => [name, runner.stats()]));
  }

  /** Answers how many of the 64 shards this process holds. */
  get shardCount(): number {
    return this.shards.count;
  }

  onApplicationBootstrap(): void {
    // Before any shard is taken: what is appended from then on must not be missed.
    this.stopListening = this.follower.listen({
      onEvents: (events) => this.all.forEach((runner) => runner.hear(events)),
      onGap: () => this.takeUp(this.leases),
    });
    for (const runner of this.all) runner.start();
    this.holding = this.shards.hold(this, this.stopping.signal);
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.stopListening();
    this.stopping.abort();
    await Promise.all(this.all.map((runner) => runner.stop()));
    await this.holding;
  }

  onTaken(leases: ReadonlyMap<number, Lease>): void {
    for (const [shard, lease] of leases) this.leases.set(shard, lease);
    this.takeUp(leases);
  }

  onLost(shard: number): void {
    if (this.lost.size === 0) queueMicrotask(() => void this.letGo(this.lost));
    this.lost.add(shard);
  }

  busyShards(): Set<number> {
    return new Set(this.all.flatMap((runner) => [...runner.busyShards()]));
  }

  async letGo(shards: ReadonlySet<number>): Promise<void> {
    if (shards === this.lost) this.lost = new Set();
    for (const shard of shards) this.leases.delete(shard);
    await Promise.all(this.all.map((runner) => runner.drop(shards)));
  }

  private get all(): SagaRunner[] {
    return [...this.runners.values()];
  }

  private takeUp(leases: ReadonlyMap<number, Lease>): void {
    for (const runner of this.all) void runner.takeUp(leases);
  }
}
