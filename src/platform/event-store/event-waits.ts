import type { BeforeApplicationShutdown } from '@nestjs/common';
import { Injectable } from '@nestjs/common';

import { Refusal } from '../refusal.ts';
import type { StoredEvent } from './event-store.ts';
import { LogFollower } from './log-follower.ts';

const MAX_WATCHES = 10_000;
/** Unread events kept per watch, the newest: whoever missed some looks at the state anyway. */
const MAX_UNREAD = 100;

/** The events of one stream from the moment when the watch began, for one who waits. Dispose of it (`using`) when done. */
export class EventWatch implements Disposable {
  private readonly unread: StoredEvent[] = [];
  /** Ends the sleep of whoever waits for the next event. */
  private wake: () => void = () => undefined;
  private ended = false;

  constructor(private readonly onDispose: (watch: EventWatch) => void) {}

  /** The next event, in order; null when the time (ms) is over, the signal aborts, or the service stops. */
  next(timeoutMs: number, signal?: AbortSignal): Promise<StoredEvent | null>;
  /** The first answer that `onEvent` gives to an event, other than undefined; the events before are passed over. */
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

  arrived(event: StoredEvent): void {
    if (this.unread.length >= MAX_UNREAD) this.unread.shift();
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
 * Waiting for something to happen on a stream, driven by events. Watch first, then read the state, then wait; so nothing falls between
 * the look and the wait:
 *
 *     using watch = waits.watch(stream);
 *     let state = await read();
 *     while (!settled(state) && (await watch.next(leftMs)) !== null) state = await read();
 *
 * `until` is that loop. After an event that this program can't read, watches go on behind it.
 */
@Injectable()
export class EventWaits implements BeforeApplicationShutdown {
  private readonly watches = new Map<string, Set<EventWatch>>();
  private count = 0;
  private stopping = false;

  constructor(private readonly follower: LogFollower) {
    follower.listen({
      onEvents: (events) => {
        for (const event of events) for (const watch of this.watches.get(event.stream) ?? []) watch.arrived(event);
      },
    });
  }

  /** Ends every wait: a stopping service answers those who wait as if their time were over. */
  beforeApplicationShutdown(): void {
    this.stopping = true;
    for (const watches of this.watches.values()) for (const watch of watches) watch.end();
  }

  /** From now on the watch keeps the stream's events (class `core`). Throws Refusal `rate_limited` where too many wait. */
  watch(stream: string): EventWatch {
    if (!this.follower.started) throw new Error('events are not watched before the application has started');
    if (this.count >= MAX_WATCHES) throw new Refusal('rate_limited', 'Too many requests wait already.', { retryAfterSeconds: 1 });
    const watches = this.watches.get(stream) ?? new Set();
    const watch = new EventWatch((done) => this.forget(stream, watches, done));
    if (this.stopping) watch.end();
    this.watches.set(stream, watches.add(watch));
    this.count += 1;
    return watch;
  }

  /**
   * Asks `probe` now, and after each event of the stream, until it answers something; that is the answer, or null when the time
   * (ms) is over or the signal aborts. `probe` is told the event, so that it can wait for a read model to have reached it.
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

  private forget(stream: string, watches: Set<EventWatch>, watch: EventWatch): void {
    if (!watches.delete(watch)) return;
    this.count -= 1;
    if (watches.size === 0 && this.watches.get(stream) === watches) this.watches.delete(stream);
  }
}
