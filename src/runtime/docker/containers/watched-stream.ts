import { pause } from '../../../kernel/async/pause.ts';

/** The bytes after which the engine may have rotated the log file during much output. */
const FLOOD_BYTES = 1_024 * 1_024;
/**
 * A response that has lasted for this long, in ms, is suspicious after fewer bytes, because it may have begun shortly before a rotation.
 */
const LONG_MS = 300_000;
const SOME_BYTES = 64 * 1_024;

export interface Suspicion {
  floodBytes: number;
  longMs: number;
  someBytes: number;
}

const usual: Suspicion = { floodBytes: FLOOD_BYTES, longMs: LONG_MS, someBytes: SOME_BYTES };

/**
 * Passes on a container’s output, and ends when it may be stalled: a Docker Engine (20.10 does) can lose a log file that is rotated while
 * it is followed, after which the response continues without a byte (moby issue 37646). The reader then follows again from where the output
 * ended. A time without output counts only while the reader waits for more. A container that prints little is never suspected, so that idle
 * ones cost nothing.
 */
export class WatchedStream implements AsyncIterable<Buffer> {
  /** The value is true once the stream has ended because it may be stalled. */
  isStalled = false;

  constructor(
    private readonly source: AsyncIterable<Buffer>,
    /** The time without output, after much output, after which the stream counts as stalled, in ms. */
    private readonly silentMs: number,
    private readonly suspicion: Suspicion = usual,
  ) {}

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    const openedAt = performance.now();
    const chunks = this.source[Symbol.asyncIterator]();
    for (let bytes = 0; ;) {
      const next = chunks.next();
      const chunk = await within(next, this.patienceMs(bytes, openedAt));
      if (chunk === null) {
        this.isStalled = true;
        // The reader closes the connection, which fails the read.
        next.catch(() => undefined);
        return;
      }
      if (chunk.done) return;
      bytes += chunk.value.length;
      yield chunk.value;
    }
  }

  private patienceMs(bytes: number, openedAt: number): number {
    const { floodBytes, longMs, someBytes } = this.suspicion;
    if (bytes >= floodBytes) return this.silentMs;
    return bytes < someBytes ? Infinity : Math.max(this.silentMs, openedAt + longMs - performance.now());
  }
}

/** Returns the promise's result; null if that takes longer than the time in ms. */
async function within<T>(promise: Promise<T>, ms: number): Promise<T | null> {
  if (ms === Infinity) return promise;
  const over = new AbortController();
  try {
    return await Promise.race([promise, pause(ms, over.signal).then(() => null)]);
  } finally {
    over.abort();
  }
}
