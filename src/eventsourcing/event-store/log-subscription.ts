import { Logger } from '@nestjs/common';
import { pause } from '../../kernel/async/pause.ts';
import { Backoff } from '../../kernel/async/retry.ts';
import { EventStoreUnavailable, START, type BatchHandler, type Position, type QuietHandler, type Subscription } from './event-store.ts';
import type { Batch } from './events-up-to.ts';

/** Intervals in ms. */
const POLL_INTERVAL_MS = 2_000;
const FIRST_RETRY_MS = 100;
const LAST_RETRY_MS = 5_000;

const logger = new Logger('EventStore');

/** Waits for the log to go beyond its position. */
interface Waiter {
  position(): Position;
  /** Moves on within the call, as far as nothing concerns it. Its position is then the new one. */
  moveOn(): void;
  wake(): void;
}

/**
 * Knows the head of one log and wakes those who wait for events after it. It is notified of own appends and by the store; since both may be
 * missed, it also polls the store every 2 s while somebody waits.
 */
export class HeadWatch {
  private known: Position = START;
  private readonly waiting = new Set<Waiter>();
  private pollTimer: NodeJS.Timeout | null = null;

  constructor(private readonly head: () => Promise<Position>) {}

  notify(position: Position): void {
    if (position <= this.known) return;
    this.known = position;
    for (const waiter of this.waiting) {
      if (position > waiter.position()) waiter.moveOn();
      if (position > waiter.position()) waiter.wake();
    }
  }

  /** Returns true if the position, or a later one, is known. */
  isKnown(position: Position): boolean {
    return this.known >= position;
  }

  /** Returns whether no later position is known. */
  isReached(position: Position): boolean {
    return this.known <= position;
  }

  /** Reads the head from the store. After a failure the next call tries again. */
  async poll(): Promise<void> {
    const head = await this.head().catch(() => START);
    this.notify(head);
  }

  /** Resolves when there is more after the reader's position than it moves on for, or the signal aborts. */
  async waitBeyond(reader: Omit<Waiter, 'wake'>, signal: AbortSignal): Promise<void> {
    if (signal.aborted || this.known > reader.position()) return;
    await new Promise<void>((resolve) => {
      const wake = () => {
        this.waiting.delete(waiter);
        signal.removeEventListener('abort', wake);
        if (this.waiting.size === 0) this.rest();
        resolve();
      };
      const waiter: Waiter = { ...reader, wake };
      this.waiting.add(waiter);
      signal.addEventListener('abort', wake);
      this.pollTimer ??= setInterval(() => void this.poll(), POLL_INTERVAL_MS).unref();
    });
  }

  private rest(): void {
    if (this.pollTimer) clearInterval(this.pollTimer);
    this.pollTimer = null;
  }
}

/** The log as a subscription reads it, with the filter of its subscriber. */
export interface FollowedLog {
  readonly watch: HeadWatch;
  read(after: Position, atHead: boolean): Promise<Batch>;
  /** Returns what is kept in memory after the position; null if that has to be read. */
  kept(after: Position): Batch | null;
}

/**
 * Follows a log until it is stopped: reads events, calls the handler, waits for more. Only an error of the handler, or an event that this
 * program does not know, ends it.
 */
export class LogSubscription implements Subscription {
  readonly ended: Promise<void>;
  private readonly stopping = new AbortController();

  constructor(
    private readonly log: FollowedLog,
    private after: Position,
    private readonly onBatch: BatchHandler,
    private readonly onQuiet: QuietHandler = () => false,
  ) {
    this.ended = this.follow();
    // Callers that need to know await `ended`; a rejection that nobody awaits must not end the process.
    this.ended.catch(() => undefined);
  }

  async stop(): Promise<void> {
    this.stopping.abort();
    await this.ended.catch(() => undefined);
  }

  private async follow(): Promise<void> {
    const { signal } = this.stopping;
    const { watch } = this.log;
    const reader = { position: () => this.after, moveOn: () => this.moveOn() };
    for (let woken = false; !signal.aborted;) {
      const { events, upTo } = await this.readBatch(this.after, woken);
      if (signal.aborted) return;
      if (upTo > this.after) {
        await this.onBatch(events, upTo);
        this.after = upTo;
        // The head is found by reading until a page is empty. After that `watch` knows the head, so a reader at the head need not read once
        // more.
        if (!woken || !watch.isReached(this.after)) continue;
      } else if (woken) {
        // The reported head is beyond the end of the store's log (a server was restored to an older state): wait, instead of polling in a
        // loop.
        await pause(FIRST_RETRY_MS, signal, { ref: false });
      }
      await watch.waitBeyond(reader, signal);
      woken = true;
    }
  }

  /** Moves on while it waits at the head, if nothing that is kept concerns the subscriber. */
  private moveOn(): void {
    try {
      const batch = this.log.kept(this.after);
      if (batch !== null && batch.upTo > this.after && this.onQuiet(batch.events, batch.upTo)) this.after = batch.upTo;
    } catch {
      // The error is not lost: the same batch is read and handled next, and fails there in the same way.
    }
  }

  /** Reads, and retries until that succeeds: the store may be unavailable for hours. */
  private async readBatch(after: Position, atHead: boolean): Promise<Batch> {
    const { signal } = this.stopping;
    const backoff = new Backoff({ firstMs: FIRST_RETRY_MS, lastMs: LAST_RETRY_MS });
    while (!signal.aborted) {
      try {
        return await this.log.read(after, atHead);
      } catch (error) {
        // A retry would fail with the same error (an event that this program does not know), so the subscriber must get it.
        if (!(error instanceof EventStoreUnavailable)) throw error;
        logger.warn(`The subscription to the log waits for the store: ${(error.cause as Error).message}`);
        await backoff.pause(signal, { ref: false });
      }
    }
    return { events: [], upTo: after };
  }
}
