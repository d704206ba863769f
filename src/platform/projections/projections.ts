import type { BeforeApplicationShutdown, OnApplicationBootstrap } from '@nestjs/common';
import { Injectable } from '@nestjs/common';

import { Database } from '../database/database.ts';
import { type EventClass, EventStore, START, type Position } from '../event-store/event-store.ts';
import { Refusal } from '../refusal.ts';
import { Leases } from './leases.ts';
import { type Projection, ReadModels } from './projection.ts';
import { ProjectionRegistry, type ProjectionStatus } from './projection-registry.ts';
import { ProjectionRunner } from './projection-runner.ts';
import { checkTable } from './projection-sql.ts';

const REACHED_TIMEOUT_MS = 5_000;
/** How often a replica looks at the checkpoints that another one moves, while somebody waits for one of them. */
const LOOK_EVERY_MS = 20;
const MAX_WAITERS = 10_000;

interface Waiter {
  position: Position;
  settle(refusal: Refusal | null): void;
}

/** One projection as this process knows it. */
interface Entry {
  runner: ProjectionRunner;
  /** As far as any process is known to have come. */
  known: Position;
  waiters: Set<Waiter>;
}

/** The read models of this process. Features register theirs in `onModuleInit`; the log is followed from the bootstrap on. */
@Injectable()
export class Projections extends ReadModels implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly registry: ProjectionRegistry;
  private readonly entries = new Map<string, Entry>();
  private waiting = 0;
  private looking = false;
  private stopped = false;

  constructor(
    private readonly database: Database,
    private readonly store: EventStore,
    private readonly leases: Leases,
  ) {
    super();
    this.registry = new ProjectionRegistry(database);
  }

  /** Before the application's bootstrap. Throws where its name or table is taken, or its definition is no table. */
  register<Row extends object>(projection: Projection<Row>): void {
    checkTable(projection.table);
    for (const { runner } of this.entries.values())
      if (runner.projection.name === projection.name || runner.projection.table.name === projection.table.name)
        throw new Error(`the projection ${projection.name} is registered twice`);
    const entry: Entry = {
      runner: new ProjectionRunner(projection as unknown as Projection, this.database, this.store, this.leases, () => this.moved(entry)),
      known: START,
      waiters: new Set(),
    };
    this.entries.set(projection.name, entry);
  }

  /** Of the projections that follow the class. */
  names(eventClass: EventClass): string[] {
    return [...this.entries].filter(([, { runner }]) => runner.projection.filter.eventClass === eventClass).map(([name]) => name);
  }

  async onApplicationBootstrap(): Promise<void> {
    await Promise.all([...this.entries.values()].map(({ runner }) => runner.start()));
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.stopped = true;
    for (const entry of this.entries.values()) for (const waiter of entry.waiters) waiter.settle(behind(entry, 'the service is stopping'));
    await Promise.all([...this.entries.values()].map(({ runner }) => runner.stop()));
  }

  override async reached(projection: string, position: Position, timeoutMs = REACHED_TIMEOUT_MS): Promise<void> {
    const entry = this.entryOf(projection);
    if (position <= this.checkpoint(projection)) return;
    if (this.stopped) throw behind(entry, 'the service is stopping');
    if (entry.runner.state === 'failed') throw behind(entry, 'it stopped at an event that it can not take in');
    if (this.waiting >= MAX_WAITERS) throw behind(entry, 'too many reads wait already');
    const refusal = await this.waitFor(entry, position, timeoutMs);
    if (refusal !== null) throw refusal;
  }

  /** As far as this process knows the projection to have come. */
  checkpoint(projection: string): Position {
    return this.entryOf(projection).known;
  }

  /** Of the projections registered here: how far each has come, and whether it runs. */
  async status(): Promise<ProjectionStatus[]> {
    const all = await this.registry.status();
    return all.flatMap((stored) => {
      const entry = this.entries.get(stored.name);
      if (entry === undefined) return [];
      this.learn(entry, stored.position);
      return [{ ...stored, position: entry.known }];
    });
  }

  private entryOf(projection: string): Entry {
    const entry = this.entries.get(projection);
    if (entry === undefined) throw new Error(`there is no projection ${projection}`);
    return entry;
  }

  private waitFor(entry: Entry, position: Position, timeoutMs: number): Promise<Refusal | null> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => waiter.settle(behind(entry, `it was not there within ${timeoutMs} ms`)), timeoutMs);
      const waiter: Waiter = {
        position,
        settle: (refusal) => {
          clearTimeout(timer);
          if (entry.waiters.delete(waiter)) this.waiting -= 1;
          resolve(refusal);
        },
      };
      entry.waiters.add(waiter);
      this.waiting += 1;
      this.lookWhileNeeded();
    });
  }

  private moved(entry: Entry): void {
    if (entry.runner.state === 'failed')
      for (const waiter of entry.waiters) waiter.settle(behind(entry, 'it stopped at an event that it can not take in'));
    else this.learn(entry, entry.runner.position);
    this.lookWhileNeeded();
  }

  private learn(entry: Entry, position: Position): void {
    if (position <= entry.known) return;
    entry.known = position;
    for (const waiter of entry.waiters) if (waiter.position <= position) waiter.settle(null);
  }

  /**
   * The process that holds a projection's lease signals its waiters itself. On any other replica one small query at a time
   * serves all of them, and only while somebody waits: a NOTIFY with each batch would slow every append down instead.
   */
  private lookWhileNeeded(): void {
    if (this.looking || this.stopped) return;
    const needed = [...this.entries.values()].some(({ runner, waiters }) => waiters.size > 0 && runner.state === 'standby');
    if (!needed) return;
    this.looking = true;
    setTimeout(() => {
      this.status()
        .catch(() => undefined)
        .finally(() => {
          this.looking = false;
          this.lookWhileNeeded();
        });
    }, LOOK_EVERY_MS);
  }
}

function behind({ runner }: Entry, why: string): Refusal {
  return new Refusal('read_model_behind', `The read model ${runner.projection.name} does not show that position yet: ${why}.`, {
    retryAfterSeconds: 1,
  });
}
