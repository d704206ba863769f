import { setTimeout as wait } from 'node:timers/promises';

import { Logger } from '@nestjs/common';

import type { Database } from '../database/database.ts';
import { UnknownEvent } from '../event-store/catalogue.ts';
import { START, type EventStore, type Position, type StoredEvent } from '../event-store/event-store.ts';
import type { Lease, Leases } from './leases.ts';
import type { Projection } from './projection.ts';
import { ProjectionRegistry } from './projection-registry.ts';
import { PoisonEvent, ReadModelTable } from './read-model-table.ts';

/** Before it tries again after a failure of the database; doubled up to the last. */
const FIRST_RETRY_MS = 100;
const LAST_RETRY_MS = 5_000;
/** How long the stored checkpoint may stay behind where the filter let nothing through; other replicas see it only then. */
const QUIET_WRITE_MS = 200;

/** Where a replica's projection stands: `standby` follows nothing because another process holds the lease. */
export type RunnerState = 'standby' | 'live' | 'failed';

/**
 * Keeps one read model up to date for as long as this process holds its lease. A failure of the database is tried again;
 * a poison event stops it until the next start, and the rows that stand go on serving.
 */
export class ProjectionRunner {
  state: RunnerState = 'standby';
  /** Everything up to here is in the table; ahead of the stored checkpoint only by events that do not concern it. */
  position: Position = START;
  private readonly logger = new Logger('Projections');
  private readonly registry: ProjectionRegistry;
  private readonly stopping = new AbortController();
  private running: Promise<void> | null = null;
  private retryMs = FIRST_RETRY_MS;
  private table: ReadModelTable;
  private turn: Promise<void> = Promise.resolve();
  private quietWrite: NodeJS.Timeout | null = null;

  constructor(
    readonly projection: Projection,
    private readonly database: Database,
    private readonly store: EventStore,
    private readonly leases: Leases,
    private readonly onMoved: () => void,
  ) {
    this.registry = new ProjectionRegistry(database);
  }

  /** Resolves when the table is there; the log is followed from then on. */
  async start(): Promise<void> {
    await this.registry.ensureTable(this.projection);
    this.running = this.run();
  }

  /** Finishes the batch under way and gives the lease back. */
  async stop(): Promise<void> {
    this.stopping.abort();
    await this.running;
  }

  private async run(): Promise<void> {
    const { signal } = this.stopping;
    while (!signal.aborted) {
      const lease = await this.leases.acquire(`projection:${this.projection.name}`, signal).catch(() => null);
      if (lease === null) return;
      const until = AbortSignal.any([signal, lease.signal]);
      try {
        await this.follow(lease, until);
      } catch (error) {
        await this.afterFailure(error, lease, until);
      }
      this.state = 'standby';
      await lease.release();
      this.onMoved();
    }
  }

  private async afterFailure(error: unknown, lease: Lease, until: AbortSignal): Promise<void> {
    if (until.aborted) return;
    const { name } = this.projection;
    if (error instanceof PoisonEvent || error instanceof UnknownEvent) {
      this.logger.error(
        `The projection ${name} stopped at an event that it can't take in, its rows stay as they are: ${error.message}`,
        error.stack,
      );
      this.state = 'failed';
      this.onMoved();
      const told = this.registry.setState(this.projection, lease.epoch, 'failed', error.message.slice(0, 500));
      await told.catch((reason: Error) => this.logger.warn(reason.message));
      // The lease is kept: on another replica the same event would do the same.
      return aborted(until);
    }
    this.logger.warn(`The projection ${name} goes on in ${this.retryMs} ms: ${(error as Error).message}`);
    await wait(this.retryMs, undefined, { signal: until }).catch(() => undefined);
    this.retryMs = Math.min(this.retryMs * 2, LAST_RETRY_MS);
  }

  private async follow(lease: Lease, until: AbortSignal): Promise<void> {
    const { projection } = this;
    let stored = await this.registry.claim(projection, lease.epoch);
    if (stored.version !== projection.version) {
      await this.rebuild(stored.version, lease, until);
      if (until.aborted) return;
      stored = await this.registry.claim(projection, lease.epoch);
    }
    await this.registry.setState(projection, lease.epoch, 'running', null);
    this.table = this.tableAt(projection.table.name, lease, stored.position);
    this.state = 'live';
    this.moveTo(stored.position);
    const subscription = this.store.subscribe(stored.position, projection.filter, (events, upTo) => this.take(events, upTo));
    try {
      await Promise.race([subscription.ended, aborted(until)]);
    } finally {
      // Its rejection is the one just thrown, or none.
      await subscription.stop().catch(() => undefined);
      subscription.ended.catch(() => undefined);
      await this.writeQuietly();
    }
  }

  private tableAt(physical: string, lease: Lease, position: Position): ReadModelTable {
    return new ReadModelTable(this.database, this.projection, physical, lease.epoch, position);
  }

  private async take(events: StoredEvent[], upTo: Position): Promise<void> {
    // Most events concern few projections: a write for each of the others would cost more than the events themselves.
    if (events.length === 0) {
      this.quietWrite ??= setTimeout(() => void this.writeQuietly(), QUIET_WRITE_MS);
      return this.moveTo(upTo);
    }
    // A batch may have gone in up to its poison event.
    await this.inTurn(() => this.table.take(events, upTo)).finally(() => this.moveTo(this.table.position));
    this.retryMs = FIRST_RETRY_MS;
  }

  private async writeQuietly(): Promise<void> {
    if (this.quietWrite === null) return;
    clearTimeout(this.quietWrite);
    this.quietWrite = null;
    // Where it fails, only events that do not concern the projection are read once more.
    await this.inTurn(() => this.table.take([], this.position)).catch((error: Error) => this.logger.debug(error.message));
  }

  /** One write at a time: each names the position that the one before left. */
  private inTurn(work: () => Promise<void>): Promise<void> {
    const done = this.turn.then(work);
    this.turn = done.catch(() => undefined);
    return done;
  }

  private moveTo(position: Position): void {
    this.position = position;
    this.onMoved();
  }

  /** Builds the table of this version beside the one that serves, from the log's start or from where a rebuild was broken off, and changes over. */
  private async rebuild(from: number, lease: Lease, until: AbortSignal): Promise<void> {
    const { name, version, table, filter } = this.projection;
    const building = `${table.name}_v${version}`;
    this.logger.log(`The projection ${name} is rebuilt from version ${from} to ${version}`);
    await this.registry.setState(this.projection, lease.epoch, 'rebuilding', null);
    const built = this.tableAt(building, lease, await this.registry.openBuild(this.projection, building, lease.epoch));
    for await (const events of this.store.readAll(built.position, filter)) {
      if (until.aborted) return;
      const last = events.at(-1);
      if (last !== undefined) await built.take(events, last.position);
    }
    await this.registry.swap(this.projection, building, lease.epoch);
    this.logger.log(`The projection ${name} serves version ${version}`);
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
