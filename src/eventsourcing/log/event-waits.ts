import type { BeforeApplicationShutdown } from '@nestjs/common';
import { Injectable } from '@nestjs/common';

import { ProblemError } from '../../kernel/errors/problem-error.ts';
import type { StoredEvent } from '../event-store/event-store.ts';
import { LogFollower } from './log-follower.ts';

const WATCHES_MAX = 10_000;
/** The most unread events that a watch keeps, the newest: a caller that missed some reads the state anyway. */
const UNREAD_MAX = 100;

/** The events of one stream, or of some, from the moment when the watch began. Dispose of it (`using`) when done. */
export class EventWatch implements Disposable {
  private readonly unread: StoredEvent[] = [];
  /** Wakes the caller that waits for the next event. */
  private wake: () => void = () => undefined;
  private ended = false;

  constructor(private readonly onDispose: (watch: EventWatch) => void) {}

  /** Returns the next event, in order; null if the timeout (ms) is over, the signal aborts, or the service stops. */
  next(timeoutMs: number, signal?: AbortSignal): Promise<StoredEvent | null>;
  /** Returns the first result of `onEvent` that is not undefined; the events before are skipped. */
  next<T>(onEvent: (event: StoredEvent) => T | undefined, timeoutMs: number, signal?: AbortSignal): Promise<T | null>;
  async next(first: number | ((event: StoredEvent) => unknown), second?: number | AbortSignal, third?: AbortSignal): Promise<unknown> {
    const [onEvent, timeoutMs, signal] =
      typeof first === 'number'
        ? [(event: StoredEvent) => event, first, second as AbortSignal | undefined]
        : [first, second as number, third];
    let isOver = signal?.aborted ?? false;
    const end = () => {
      isOver = true;
      this.wake();
    };
    const timer = setTimeout(end, Math.max(0, timeoutMs));
    signal?.addEventListener('abort', end);
    try {
      for (;;) {
        for (let event = this.unread.shift(); event !== undefined; event = this.unread.shift()) {
          const answer = onEvent(event);
          if (answer !== undefined) return answer;
        }
        if (this.ended || isOver) return null;
        await new Promise<void>((resolve) => (this.wake = resolve));
      }
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
    }
  }

  push(event: StoredEvent): void {
    if (this.unread.length >= UNREAD_MAX) this.unread.shift();
    this.unread.push(event);
    this.wake();
  }

  end(): void {
    this.ended = true;
    this.wake();
  }

  [Symbol.dispose](): void {
    this.end();
    this.onDispose(this);
  }
}

/**
 * Waits for something to happen on a stream, without polling. Watch first, then read the state, then wait, so that no event is missed
 * between the read and the wait:
 *
 *     using watch = waits.watch(stream);
 *     let state = await read();
 *     while (!settled(state) && (await watch.next(leftMs)) !== null) state = await read();
 *
 * `until` is that loop. After an event that this program can't read, watches continue at the log's end.
 */
@Injectable()
export class EventWaits implements BeforeApplicationShutdown {
  private readonly watches = new Map<string, Set<EventWatch>>();
  private count = 0;
  private stopping = false;

  constructor(private readonly follower: LogFollower) {
    follower.listen({
      onEvents: (events) => {
        for (const event of events) for (const watch of this.watches.get(event.stream) ?? []) watch.push(event);
      },
    });
  }

  /** Ends every wait: a stopping service answers waiting callers as if their timeouts were over. */
  beforeApplicationShutdown(): void {
    this.stopping = true;
    for (const watches of this.watches.values()) for (const watch of watches) watch.end();
  }

  /** Starts a watch, which keeps the streams' events (class `core`) from now on. Throws ProblemError `rate_limited` if 10 000 watches exist. */
  watch(...streams: string[]): EventWatch {
    if (!this.follower.started) throw new Error('events are not watched before the application has started');
    if (this.count >= WATCHES_MAX) throw new ProblemError('rate_limited', 'Too many requests wait already.', { retryAfterSeconds: 1 });
    const watch = new EventWatch((done) => this.removeWatch(streams, done));
    if (this.stopping) watch.end();
    for (const stream of streams) this.watches.set(stream, (this.watches.get(stream) ?? new Set()).add(watch));
    this.count += 1;
    return watch;
  }

  /**
   * Calls `probe` now, and after each event of the stream, until it returns a result, which is then returned; returns null when the timeout
   * (ms) is over or the signal aborts. `probe` gets the event, so that it can wait until a read model has reached it.
   */
  async until<T>(
    stream: string,
    probe: (event: StoredEvent | null) => Promise<T | undefined> | T | undefined,
    { timeoutMs, signal }: { timeoutMs: number; signal?: AbortSignal },
  ): Promise<T | null> {
    const deadline = performance.now() + timeoutMs;
    using watch = this.watch(stream);
    let event: StoredEvent | null = null;
    do {
      const found = await probe(event);
      if (found !== undefined) return found;
      event = await watch.next(deadline - performance.now(), signal);
    } while (event !== null);
    return null;
  }

  private removeWatch(streams: string[], watch: EventWatch): void {
    let known = false;
    for (const stream of streams) {
      const watches = this.watches.get(stream);
      if (watches?.delete(watch) !== true) continue;
      known = true;
      if (watches.size === 0) this.watches.delete(stream);
    }
    if (known) this.count -= 1;
  }
}
