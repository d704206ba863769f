import { setTimeout as wait } from 'node:timers/promises';

import type { BeforeApplicationShutdown, OnApplicationBootstrap } from '@nestjs/common';
import { Injectable, Logger } from '@nestjs/common';

import { Refusal } from '../refusal.ts';
import { EventStore, START, type Position, type StoredEvent, type Subscription } from './event-store.ts';

/** How long `hearHead` waits for the newest events to arrive. */
const HEARD_WITHIN_MS = 5_000;
/** Before the log is followed again after an event that could not be read. */
const RETRY_MS = 1_000;

export interface LogListener {
  /** Every core event, in order; called before `heard` moves to `upTo`. An error counts as an event that could not be read. */
  onEvents(events: readonly StoredEvent[], upTo: Position): void;
  /** No event up to `from` will be handed over that was not handed over yet; called before `heard` moves there, also at the start. */
  onGap?(from: Position): void;
}

interface Waiter {
  position: Position;
  settle(error?: Refusal): void;
}

/**
 * Follows the end of the core log once for the whole process, and tells everybody who remembers something that events change. It begins
 * at the end of the log when the application starts; an event that this program can't read makes it begin there again.
 */
@Injectable()
export class LogFollower implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly logger = new Logger('LogFollower');
  private readonly listeners = new Set<LogListener>();
  private readonly waiters = new Set<Waiter>();
  private readonly stopping = new AbortController();
  private position: Position = START;
  private subscription: Subscription | null = null;
  private lastQuestion: Promise<unknown> = Promise.resolve();
  private nextQuestion: Promise<Position | null> | null = null;

  constructor(private readonly store: EventStore) {}

  /** Every event up to here was handed over, or passed over by a gap. */
  get heard(): Position {
    return this.position;
  }

  /** Whether events are handed over yet: not before the application starts. */
  get started(): boolean {
    return this.subscription !== null;
  }

  onApplicationBootstrap(): Promise<void> {
    return this.follow();
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.stopping.abort();
    for (const waiter of this.waiters) waiter.settle(notHeard('the service is stopping'));
    await this.subscription?.stop();
  }

  /** Hands over every event that arrives from now on. Answers how to stop. */
  listen(listener: LogListener): () => void {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  /**
   * Resolves once everything was heard that was in the log when it was asked; null where the store does not answer. One question to the
   * store serves all who ask while another question is under way. Throws Refusal `read_model_behind` after 5 s.
   */
  hearHead(): Promise<Position | null> {
    // Never the question that is under way: its answer may be older than the call.
    this.nextQuestion ??= this.lastQuestion.then(() => {
      this.nextQuestion = null;
      const head = this.store.head('core').catch(() => null);
      this.lastQuestion = head;
      return this.waitFor(head);
    });
    return this.nextQuestion;
  }

  private async waitFor(head: Promise<Position | null>): Promise<Position | null> {
    const position = await head;
    if (position === null || position <= this.position) return position;
    if (this.stopping.signal.aborted) throw notHeard('the service is stopping');
    await new Promise<void>((resolve, reject) => {
      const settle = (error?: Refusal) => {
        clearTimeout(timer);
        this.waiters.delete(waiter);
        if (error === undefined) resolve();
        else reject(error);
      };
      const timer = setTimeout(() => settle(notHeard(`they did not arrive within ${HEARD_WITHIN_MS} ms`)), HEARD_WITHIN_MS);
      const waiter: Waiter = { position, settle };
      this.waiters.add(waiter);
    });
    return position;
  }

  private async follow(): Promise<void> {
    const head = await this.store.head('core');
    if (this.stopping.signal.aborted) return;
    for (const listener of this.listeners) listener.onGap?.(head);
    this.moveTo(head);
    this.subscription = this.store.subscribe(head, { eventClass: 'core' }, async (events, upTo) => this.hear(events, upTo));
    this.subscription.ended.catch((error: Error) => this.followAgain(error));
  }

  private async followAgain(error: Error): Promise<void> {
    this.logger.error(`Following the log begins again at its end: ${error.message}`);
    for (let again = true; again && !this.stopping.signal.aborted;) {
      await wait(RETRY_MS, undefined, { signal: this.stopping.signal }).catch(() => undefined);
      again = await this.follow().then(
        () => false,
        () => true,
      );
    }
  }

  private hear(events: readonly StoredEvent[], upTo: Position): void {
    for (const listener of this.listeners) listener.onEvents(events, upTo);
    this.moveTo(upTo);
  }

  private moveTo(position: Position): void {
    if (position <= this.position) return;
    this.position = position;
    for (const waiter of this.waiters) if (waiter.position <= position) waiter.settle();
  }
}

function notHeard(why: string): Refusal {
  return new Refusal('read_model_behind', `The newest events have not been heard here yet: ${why}.`, { retryAfterSeconds: 1 });
}
