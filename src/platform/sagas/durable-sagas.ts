import type { BeforeApplicationShutdown, OnApplicationBootstrap } from '@nestjs/common';
import { Injectable } from '@nestjs/common';

import { Clock } from '../clock.ts';
import { Database } from '../database/database.ts';
import { EventStore } from '../event-store/event-store.ts';
import { Leases } from '../projections/leases.ts';
import { Projections } from '../projections/projections.ts';
import type { KeyedQueueStats } from './keyed-queue.ts';
import { type Saga, Sagas } from './saga.ts';
import { SagaRunner, type SagaTools } from './saga-runner.ts';

/** The sagas of this process. Features register theirs in `onModuleInit`; they run from the bootstrap on. */
@Injectable()
export class DurableSagas extends Sagas implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly tools: SagaTools;
  private readonly runners = new Map<string, SagaRunner>();

  constructor(store: EventStore, database: Database, leases: Leases, projections: Projections, clock: Clock) {
    super();
    this.tools = { store, database, leases, projections, clock };
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

  /** What each saga has to do in this process, by its name. */
  stats(): Record<string, KeyedQueueStats> {
    return Object.fromEntries([...this.runners].map(([name, runner]) => [name, runner.stats()]));
  }

  onApplicationBootstrap(): void {
    for (const runner of this.runners.values()) runner.start();
  }

  async beforeApplicationShutdown(): Promise<void> {
    await Promise.all([...this.runners.values()].map((runner) => runner.stop()));
  }
}
