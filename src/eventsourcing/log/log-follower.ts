import type { BeforeApplicationShutdown, OnApplicationBootstrap } from '@nestjs/common';
import { Injectable, Logger } from '@nestjs/common';

import { pause } from '../../kernel/async/pause.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { Startup } from '../../kernel/startup.ts';
import { EventStore, START, type Position, type StoredEvent, type Subscription } from '../event-store/event-store.ts';
import { isOutage } from '../event-store/outage.ts';

/** The time for which `catchUpToHead` waits for the newest events to arrive, in ms. */
const CATCH_UP_TIMEOUT_MS = 5_000;
/** The wait before the log is followed again after an event that could not be read, in ms. */
const RETRY_MS = 1_000;

export interface LogListener {
  /** Receives every core event, in order; called before `position` moves to `upTo`. If it throws, the batch counts as unreadable. */
  onEvents(events: readonly StoredEvent[], upTo: Position): void;
  /**
   * Called if events up to `from` were skipped: none of them will be handed over later. Called before `position` moves there, also at the
   * start.
   */
  onGap?(from: Position): void;
}

interface Waiter {
  position: Position;
  settle(error?: ProblemError): void;
}

/**
 * Follows the end of the core log once for the whole process, and hands the events to every listener. It begins at the end of the log when
 * the application starts; after an event that this program can't read, it begins at the end again.
 */
@Injectable()
export class LogFollower implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly logger = new Logger('LogFollower');
  private readonly listeners = new Set<LogListener>();
  private readonly waiters = new Set<Waiter>();
  private readonly stopping = new AbortController();
  private reached: Position = START;
  private subscription: Subscription | null = null;
  private lastHeadRead: Promise<unknown> = Promise.resolve();
  private nextHeadRead: Promise<Position | null> | null = null;
  private lastCurrentAt = -Infinity;

  constructor(
    private readonly store: EventStore,
    private readonly startup: Startup = new Startup(),
  ) {}

  /** The position up to which every event was handed over, or skipped by a gap. */
  get position(): Position {
    return this.reached;
  }

  /**
   * The latest time (of `performance.now()`) of which it is known that everything in the log had been handed over here: that of the last question
   * of `catchUpToHead` that came so far. -Infinity before the first.
   */
  get currentAt(): number {
    return this.lastCurrentAt;
  }

  /** Returns true once events are handed over, which begins when the application starts. */
  get started(): boolean {
    return this.subscription !== null;
  }

  onApplicationBootstrap(): Promise<void> {
    return this.startup.until('event_store', isOutage, () => this.follow());
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.stopping.abort();
    for (const waiter of this.waiters) waiter.settle(notCaughtUp('the service is stopping'));
    await this.subscription?.stop();
  }

  /** Hands over every event that arrives from now on. Returns a function that ends this. */
  listen(listener: LogListener): () => void {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  /**
   * Resolves with the position of the log's head at the time of the call, once all events up to it were handed over; with null if the store
   * does not answer. Callers that ask while a question to the store is in flight share the next one. Throws ProblemError `read_model_behind`
   * after 5 s.
   */
  catchUpToHead(): Promise<Position | null> {
    // The question that is in flight is not shared: its answer may be older than this call.
    this.nextHeadRead ??= this.lastHeadRead.then(() => {
      this.nextHeadRead = null;
      const askedAt = performance.now();
      const head = this.store.head('core').catch(() => null);
      this.lastHeadRead = head;
      return this.waitFor(head, askedAt);
    });
    return this.nextHeadRead;
  }

  private async waitFor(head: Promise<Position | null>, askedAt: number): Promise<Position | null> {
    const position = await head;
    if (position !== null && position > this.reached) await this.waitUntil(position);
    if (position !== null && this.started) this.lastCurrentAt = Math.max(this.lastCurrentAt, askedAt);
    return position;
  }

  private async waitUntil(position: Position): Promise<void> {
    if (this.stopping.signal.aborted) throw notCaughtUp('the service is stopping');
    await new Promise<void>((resolve, reject) => {
      const settle = (error?: ProblemError) => {
        clearTimeout(timer);
        this.waiters.delete(waiter);
        if (error === undefined) resolve();
        else reject(error);
      };
      const timer = setTimeout(() => settle(notCaughtUp(`they did not arrive within ${CATCH_UP_TIMEOUT_MS} ms`)), CATCH_UP_TIMEOUT_MS);
      const waiter: Waiter = { position, settle };
      this.waiters.add(waiter);
    });
  }

  private async follow(): Promise<void> {
    const head = await this.store.head('core');
    if (this.stopping.signal.aborted) return;
    for (const listener of this.listeners) listener.onGap?.(head);
    this.moveTo(head);
    this.subscription = this.store.subscribe(head, { eventClass: 'core' }, async (events, upTo) => this.onBatch(events, upTo));
    this.subscription.ended.catch((error: Error) => this.restart(error));
  }

  private async restart(error: Error): Promise<void> {
    this.logger.error(`Following the log begins again at its end: ${error.message}`);
    for (let again = true; again && !this.stopping.signal.aborted;) {
      await pause(RETRY_MS, this.stopping.signal);
      again = await this.follow().then(
        () => false,
        () => true,
      );
    }
  }

  private onBatch(events: readonly StoredEvent[], upTo: Position): void {
    for (const listener of this.listeners) listener.onEvents(events, upTo);
    this.moveTo(upTo);
  }

  private moveTo(position: Position): void {
    if (position <= this.reached) return;
    this.reached = position;
    for (const waiter of this.waiters) if (waiter.position <= position) waiter.settle();
  }
}

function notCaughtUp(why: string): ProblemError {
  return new ProblemError('read_model_behind', `The newest events have not been heard here yet: ${why}.`, { retryAfterSeconds: 1 });
}
