import { pause } from './pause.ts';

/** The waits between the attempts of one piece of work, in ms. */
export interface BackoffBounds {
  firstMs: number;
  lastMs: number;
  /**
   * With jitter, each wait is between half of its length and its whole length, so that callers that failed together do not retry together.
   */
  jitter?: boolean;
}

/** The growing waits of a loop that repeats its work: each is twice as long as the one before, up to the last. */
export class Backoff {
  private nextMs: number;

  constructor(private readonly bounds: BackoffBounds) {
    this.nextMs = bounds.firstMs;
  }

  /** The length of the next wait, without jitter, in ms. */
  get ms(): number {
    return this.nextMs;
  }

  /** Starts again with the first wait, because the work succeeded. */
  reset(): void {
    this.nextMs = this.bounds.firstMs;
  }

  /** Waits, at most until the signal aborts. It never rejects. */
  async pause(signal?: AbortSignal, options?: { ref?: boolean }): Promise<void> {
    const ms = this.bounds.jitter === true ? this.nextMs * (0.5 + Math.random() / 2) : this.nextMs;
    this.nextMs = Math.min(this.nextMs * 2, this.bounds.lastMs);
    await pause(ms, signal, options);
  }
}

export interface RetryOptions extends BackoffBounds {
  /** The number of attempts; unbounded if absent. */
  attempts?: number;
  /** Ends the attempts. */
  signal?: AbortSignal;
  /** With `false` the process may end during a wait. */
  ref?: boolean;
  /** Returns whether another attempt may succeed. Without it, every failure is repeated. */
  mayPass?: (error: unknown) => boolean;
  /** Called before each wait. */
  onRetry?: (error: unknown, retryInMs: number) => void;
}

/**
 * Repeats the work until it succeeds, with growing waits. Throws the work's error if no further attempt may succeed, and after the last
 * attempt; throws the signal's reason if the signal aborts first.
 */
export async function retry<T>(work: () => Promise<T>, options: RetryOptions): Promise<T> {
  const { attempts = Infinity, signal, ref, mayPass, onRetry } = options;
  const backoff = new Backoff(options);
  for (let attempt = 1; ; attempt += 1) {
    signal?.throwIfAborted();
    try {
      return await work();
    } catch (error) {
      if (attempt >= attempts || mayPass?.(error) === false) throw error;
      onRetry?.(error, backoff.ms);
    }
    await backoff.pause(signal, { ref });
  }
}
