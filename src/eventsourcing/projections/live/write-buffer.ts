import type { Position, StoredEvent } from '../../event-store/event-store.ts';
import { sizeOf } from '../../aggregates/size.ts';

/** Events that arrive within this time after a write are written together, in ms. */
const GATHER_MS = 25;
/** The bounds on buffered events. At either one they are written immediately, and `add` waits for that write. */
const EVENTS_MAX = 500;
const BYTES_MAX = 4 * 1024 * 1024;

/**
 * Writes the events of the log in batches: immediately if the last write was not just now or a read waits for them, and otherwise together
 * with the events of the next `GATHER_MS`.
 */
export class WriteBuffer {
  /** Rejects once a write has failed. Nothing is written after that. */
  readonly failed: Promise<never>;
  private fail: (error: unknown) => void = () => undefined;
  private events: StoredEvent[] = [];
  private bytes = 0;
  private upTo: Position | null = null;
  private isWriting = false;
  private writeChain: Promise<void> = Promise.resolve();
  private timer: NodeJS.Timeout | null = null;
  private nextAt = 0;

  constructor(
    private readonly write: (events: StoredEvent[], upTo: Position) => Promise<void>,
    private readonly isAwaited: () => boolean,
  ) {
    this.failed = new Promise((_, reject) => (this.fail = reject));
    this.failed.catch(() => undefined);
  }

  /** Returns whether everything that was added is written. */
  get isEmpty(): boolean {
    return this.upTo === null && !this.isWriting;
  }

  /** Buffers the events that follow those added before. Resolves when more may be added. Throws the error of the write. */
  async add(events: readonly StoredEvent[], upTo: Position): Promise<void> {
    for (const event of events) {
      this.events.push(event);
      this.bytes += sizeOf(event);
    }
    this.upTo = upTo;
    const waitMs = this.nextAt - performance.now();
    const isFull = this.events.length >= EVENTS_MAX || this.bytes >= BYTES_MAX;
    if (isFull || waitMs <= 0 || this.isAwaited()) return this.flush();
    this.timer ??= setTimeout(() => this.flushSoon(), waitMs);
  }

  /** Starts a write of everything that is buffered. */
  flushSoon(): void {
    this.flush().catch(() => undefined);
  }

  /** Resolves when everything that was added is written. Throws the error of the write. */
  flush(): Promise<void> {
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
    if (this.upTo !== null) {
      this.writeChain = this.writeChain.then(() => this.writeAll());
      this.writeChain.catch(this.fail);
    }
    return this.writeChain;
  }

  private async writeAll(): Promise<void> {
    const [events, upTo] = [this.events, this.upTo];
    if (upTo === null) return;
    this.events = [];
    this.bytes = 0;
    this.upTo = null;
    this.nextAt = performance.now() + GATHER_MS;
    this.isWriting = true;
    try {
      await this.write(events, upTo);
    } finally {
      this.isWriting = false;
    }
  }
}
