import { setTimeout as wait } from 'node:timers/promises';

import { Logger } from '@nestjs/common';

import type { Clock } from '../clock.ts';
import type { Database } from '../database/database.ts';
import type { EventStore, Position, StoredEvent } from '../event-store/event-store.ts';
import { toRefusal } from '../http/problems.ts';
import type { Lease, Leases } from '../projections/leases.ts';
import type { Projections } from '../projections/projections.ts';
import { Deadlines } from './deadlines.ts';
import { KeyedQueue, type KeyedQueueStats, NO_KEYS, type Run } from './keyed-queue.ts';
import type { Saga } from './saga.ts';

const RESYNC_EVERY_MS = 30_000;
/** How long the first resync waits for read models to have come as far as the log; one that failed does not hold it up. */
const CAUGHT_UP_TIMEOUT_MS = 10_000;
const RETRY_MS = 1_000;

/** What a saga runner stands on. */
export interface SagaTools {
  store: EventStore;
  database: Database;
  leases: Leases;
  projections: Projections;
  clock: Clock;
}

/** What lives as long as one lease. */
interface Term {
  queue: KeyedQueue;
  deadlines: Deadlines;
  lease: Lease;
  until: AbortSignal;
}

/**
 * Runs one saga for as long as this process holds its lease. The saga has no checkpoint and needs none: a key's pass looks at
 * the whole state, so all that matters is that no key is forgotten. What was appended before the head H, read at the start,
 * is found by `resync`, which is asked once the read models have reached H, and by the overdue deadlines; what comes after H
 * is told by the subscription, which begins at H.
 */
export class SagaRunner {
  private readonly logger = new Logger('Sagas');
  private readonly stopping = new AbortController();
  private running: Promise<void> | null = null;
  private queue: KeyedQueue | null = null;

  constructor(
    readonly saga: Saga,
    private readonly tools: SagaTools,
  ) {}

  start(): void {
    this.running = this.run();
  }

  /** Aborts what runs, waits for it, and gives the lease back. */
  async stop(): Promise<void> {
    this.stopping.abort();
    await this.running;
  }

  /** On a replica without the lease nothing happens: the holder hears of the event from the log itself. */
  wake(key: string, account: string | null): void {
    this.queue?.wake(key, account);
  }

  stats(): KeyedQueueStats {
    return this.queue?.stats() ?? NO_KEYS;
  }

  private async run(): Promise<void> {
    const { signal } = this.stopping;
    while (!signal.aborted) {
      const lease = await this.tools.leases.acquire(`saga:${this.saga.name}`, signal).catch(() => null);
      if (lease === null) return;
      const until = AbortSignal.any([signal, lease.signal]);
      try {
        await this.serve(lease, until);
      } catch (error) {
        this.logger.warn(`The saga ${this.saga.name} begins again in ${RETRY_MS} ms: ${(error as Error).message}`);
        await wait(RETRY_MS, undefined, { signal: until }).catch(() => undefined);
      }
      await lease.release();
    }
  }

  private async serve(lease: Lease, until: AbortSignal): Promise<void> {
    const { store } = this.tools;
    const head = await store.head(this.saga.filter.eventClass);
    const queue: KeyedQueue = this.newQueue(() => term);
    const deadlines = await Deadlines.load(this.saga.name, { ...this.tools, lease }, (key) => queue.wake(key));
    const term: Term = { queue, deadlines, lease, until };
    this.queue = queue;
    deadlines.start();
    const subscription = store.subscribe(head, this.saga.filter, (events) => this.signal(events, queue));
    const over = whenAborted(until);
    try {
      // The subscription ends by itself only at an event that can't be read; the next term begins behind it.
      await Promise.race([this.resyncRegularly(head, term), subscription.ended, over]);
    } finally {
      this.queue = null;
      deadlines.stop();
      const [unheeding] = await Promise.all([queue.stop(), subscription.stop()]);
      // What they still record is fenced by the revision they read, what they want later by the lease's epoch.
      if (unheeding.length > 0) this.logger.error(`The saga ${this.saga.name} was stopped, its runs of ${unheeding.join(', ')} go on`);
    }
  }

  /** Nothing wakes the queue before the term is there. */
  private newQueue(term: () => Term): KeyedQueue {
    const { name, concurrency } = this.saga;
    return new KeyedQueue({
      concurrency,
      run: (run) => this.pass(run, term()),
      isOutage: (error) => toRefusal(error).code === 'event_store_unavailable',
      onFailure: (key, error, retryInMs) =>
        this.logger.warn(`The saga ${name} failed for ${key} and tries again in ${Math.round(retryInMs)} ms: ${(error as Error).message}`),
    });
  }

  private async pass({ key, signal, aside, belongsTo }: Run, { deadlines, lease, until }: Term): Promise<void> {
    const mayAct = () => {
      signal.throwIfAborted();
      // A process that was suspended finds out here, before any timer tells it.
      if (!lease.valid) throw new Error('the lease ran out');
    };
    mayAct();
    const dueAt = await this.saga.run({ key, signal, handover: until, mayAct, aside, belongsTo });
    await deadlines.set(key, dueAt);
  }

  private async signal(events: StoredEvent[], queue: KeyedQueue): Promise<void> {
    for (const event of events)
      try {
        const key = this.saga.keyOf(event);
        if (key !== null) queue.wake(key, event.metadata.account_id);
      } catch (error) {
        // The key is found by resync; the others must not wait for it.
        this.logger.error(`The saga ${this.saga.name} can't tell the key of ${event.type} at ${event.position}`, (error as Error).stack);
      }
  }

  private async resyncRegularly(head: Position, { queue, until }: Term): Promise<void> {
    await this.readModelsAt(head, until);
    while (!until.aborted) {
      try {
        for (const { key, account } of await this.saga.resync()) queue.remind(key, account);
      } catch (error) {
        this.logger.warn(`The saga ${this.saga.name} could not resync: ${(error as Error).message}`);
      }
      await wait(RESYNC_EVERY_MS, undefined, { signal: until }).catch(() => undefined);
    }
  }

  /** What still lags after the time-out is found by a later resync. */
  private async readModelsAt(head: Position, until: AbortSignal): Promise<void> {
    const { projections } = this.tools;
    const names = projections.names(this.saga.filter.eventClass);
    const caughtUp = Promise.all(
      names.map((name) => projections.reached(name, head, CAUGHT_UP_TIMEOUT_MS).catch((error: Error) => error.message)),
    );
    const late = (await Promise.race([caughtUp, whenAborted(until)]))?.filter((message) => message !== undefined) ?? [];
    if (late.length > 0) this.logger.warn(`The saga ${this.saga.name} starts although read models lag: ${late.join(' ')}`);
  }
}

function whenAborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    else signal.addEventListener('abort', () => resolve(undefined), { once: true });
  });
}
