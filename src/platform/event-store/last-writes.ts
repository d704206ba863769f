import { setTimeout as wait } from 'node:timers/promises';

import type { BeforeApplicationShutdown, OnApplicationBootstrap } from '@nestjs/common';
import { Injectable, Logger } from '@nestjs/common';

import { Refusal } from '../refusal.ts';
import { EventStore, START, type Position, type StoredEvent, type Subscription } from './event-store.ts';

/** Accounts whose last write is remembered. */
const REMEMBERED = 10_000;
/** How long (ms) to wait for the log's newest events to be heard here. */
const HEARD_WITHIN_MS = 5_000;
const RETRY_MS = 1_000;

export interface LastWrite {
  position: Position;
  /** False where the account may not have written so far: its own last write is forgotten, or older than this process. */
  isOwn: boolean;
}

/**
 * How far each account has written, on whatever replica: this process follows the log, and before it answers makes sure that it
 * has heard all that was in the log when it was asked.
 */
@Injectable()
export class LastWrites implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly logger = new Logger('LastWrites');
  /** The longest unchanged first. */
  private readonly byAccount = new Map<string, Position>();
  private readonly waiting = new Set<() => void>();
  private readonly stopping = new AbortController();
  private others: Position = START;
  private heard: Position = START;
  private subscription: Subscription | null = null;
  private asked: Promise<unknown> = Promise.resolve();
  private nextAnswer: Promise<Position | null> | null = null;

  constructor(private readonly store: EventStore) {}

  onApplicationBootstrap(): Promise<void> {
    return this.follow();
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.stopping.abort();
    for (const wake of this.waiting) wake();
    await this.subscription?.stop();
  }

  /** The account has written up to there, here. */
  note(accountId: string, position: Position): void {
    const before = this.byAccount.get(accountId) ?? this.others;
    if (position <= before) return;
    this.byAccount.delete(accountId);
    this.byAccount.set(accountId, position);
    if (this.byAccount.size <= REMEMBERED) return;
    const [oldest] = this.byAccount;
    if (oldest === undefined) return;
    this.byAccount.delete(oldest[0]);
    if (oldest[1] > this.others) this.others = oldest[1];
  }

  /** Where a reader of the account has to have come. Throws `read_model_behind` where the log is not heard in time. */
  async of(accountId: string): Promise<LastWrite> {
    const head = await this.head();
    // A store that is away takes no writes: what is known is all.
    if (head !== null && !(await this.hears(head)))
      throw new Refusal('read_model_behind', 'The newest events have not been heard here yet.', { retryAfterSeconds: 1 });
    const own = this.byAccount.get(accountId);
    return { position: own ?? this.others, isOwn: own !== undefined };
  }

  /** Asked after the call: never an answer that was under way. One question serves all who come while another one is. */
  private head(): Promise<Position | null> {
    this.nextAnswer ??= this.asked.then(() => {
      this.nextAnswer = null;
      const answer = this.store.head('core').catch(() => null);
      this.asked = answer;
      return answer;
    });
    return this.nextAnswer;
  }

  private async hears(head: Position): Promise<boolean> {
    const end = performance.now() + HEARD_WITHIN_MS;
    for (let left = HEARD_WITHIN_MS; this.heard < head; left = end - performance.now()) {
      if (left <= 0 || this.stopping.signal.aborted) return false;
      await new Promise<void>((resolve) => {
        const wake = () => {
          clearTimeout(timer);
          this.waiting.delete(wake);
          resolve();
        };
        const timer = setTimeout(wake, left);
        this.waiting.add(wake);
      });
    }
    return true;
  }

  private async follow(): Promise<void> {
    const head = await this.store.head('core');
    this.hear([], head);
    this.others = head;
    this.subscription = this.store.subscribe(head, { eventClass: 'core' }, async (events, upTo) => this.hear(events, upTo));
    this.subscription.ended.catch((error: Error) => this.followAgain(error));
  }

  /** Only an event that this program can't read ends the subscription. */
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
    for (const { position, metadata } of events)
      if (metadata.account_id !== null && metadata.actor.kind !== 'system') this.note(metadata.account_id, position);
    if (upTo <= this.heard) return;
    this.heard = upTo;
    for (const wake of this.waiting) wake();
  }
}
