import { Clock } from '../../src/kernel/clock.ts';
import type { Aggregates } from '../../src/eventsourcing/aggregates/aggregates.ts';
import { LogFollower } from '../../src/eventsourcing/log/log-follower.ts';
import { quickIntervals } from './intervals.ts';
import { Leases } from '../../src/postgres/leases/leases.ts';
import { Projections } from '../../src/eventsourcing/projections/projections.ts';
import { DurableSagas } from '../../src/eventsourcing/sagas/durable-sagas.ts';
import { Replica } from '../../src/postgres/leases/replica.ts';
import { SagaRunners } from '../../src/eventsourcing/sagas/saga-runners.ts';
import { ShardLeases } from '../../src/eventsourcing/sagas/shard-leases.ts';
import { UnprojectedEvents } from '../../src/eventsourcing/sagas/unprojected-events.ts';
import { openAggregates, openPasses, type OpenedLog } from './log.ts';

/** A clock that a test can move forward. */
class TestClock extends Clock {
  ahead = 0;
  override now(): Date {
    return new Date(Date.now() + this.ahead);
  }
}

/** The part of one service process that runs its sagas, with its own connections. */
export class SagaProcess {
  readonly clock = new TestClock();
  readonly replica = new Replica();
  readonly leases: Leases;
  readonly projections: Projections;
  readonly sagas: DurableSagas;
  private readonly follower: LogFollower;
  /** The aggregates, whose cached states follow the log that this process reads. */
  readonly aggregates: Aggregates;

  constructor(readonly log: OpenedLog) {
    this.leases = new Leases(log.database, quickIntervals);
    this.projections = new Projections(log.database, log.store, this.leases, log.aggregates, openPasses(log.store, quickIntervals));
    this.follower = new LogFollower(log.store);
    this.aggregates = openAggregates(log.database, log.store, log.catalogue, this.follower).aggregates;
    const unseen = new UnprojectedEvents(log.store, this.projections);
    this.sagas = new DurableSagas(
      new SagaRunners(log.database, this.clock, unseen, this.follower, quickIntervals),
      this.follower,
      new ShardLeases(log.database, this.leases, this.replica, quickIntervals),
      quickIntervals,
    );
  }

  /** Starts the process. `beforeSagas` is called when the log is followed and no saga runs yet. */
  async start(beforeSagas: () => Promise<void> = () => Promise.resolve()): Promise<void> {
    await this.projections.start();
    await this.follower.onApplicationBootstrap();
    await beforeSagas();
    this.sagas.onApplicationBootstrap();
  }

  async stop(): Promise<void> {
    await this.sagas.beforeApplicationShutdown();
    await this.follower.beforeApplicationShutdown();
    await this.projections.beforeApplicationShutdown();
    await this.log.close();
  }
}
