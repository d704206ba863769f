/** Milliseconds to wait after the first failed run in a row; doubled with each further one up to the last. */
const FIRST_RETRY_MS = 1_000;
const LAST_RETRY_MS = 60_000;
/** The same where the store was away: that no key can help, and all of them wait for its return. */
const LAST_OUTAGE_RETRY_MS = 5_000;
const STOP_GRACE_MS = 10_000;
/** Keys known at once. A wake beyond is dropped: resync brings the key back. */
const MAX_KEYS = 100_000;

export interface KeyedQueueOptions {
  concurrency: number;
  run(key: string, signal: AbortSignal): Promise<void>;
  /** Told of every failed run. */
  onFailure(key: string, error: unknown, retryInMs: number): void;
  /** Whether the run failed because the store was away. */
  isOutage?: (error: unknown) => boolean;
  /** 0 ≤ x < 1; `Math.random` unless told. */
  random?: () => number;
}

/** `again`: woken while it runs. */
interface KeyState {
  phase: 'queued' | 'running' | 'waiting';
  again: boolean;
  failures: number;
  failedAt: number;
  retry: NodeJS.Timeout | null;
}

/**
 * Keys in, runs out: first come, first served; one run of a key at a time; wakes of a key melt into one run, and those that come
 * during a run into exactly one more. A failed run is repeated after a growing wait; a signal shortens that wait to 1 s after the failure.
 */
export class KeyedQueue {
  private readonly keys = new Map<string, KeyState>();
  private readonly queued = new Set<string>();
  private readonly runs = new Set<Promise<void>>();
  private readonly stopping = new AbortController();

  constructor(private readonly options: KeyedQueueOptions) {}

  /** Something may have changed for the key. */
  wake(key: string): void {
    const state = this.keys.get(key);
    if (state === undefined) this.add(key);
    else if (state.phase === 'running') state.again = true;
    // Not at once: what a failing run itself appends must not make it run without a pause.
    else if (state.phase === 'waiting') this.retryIn(key, state, Math.max(0, FIRST_RETRY_MS - (performance.now() - state.failedAt)));
  }

  /** Nobody knows of a change, but the key may have been forgotten: where it is queued, running or waits for its retry, nothing happens. */
  remind(key: string): void {
    if (!this.keys.has(key)) this.add(key);
  }

  /** Queued and running keys; those that wait for a retry are not counted. */
  get busy(): number {
    return this.queued.size + this.runs.size;
  }

  /** Starts nothing more, aborts what runs and waits for it, at most `graceMs`. Answers the keys whose runs took no notice. */
  async stop(graceMs = STOP_GRACE_MS): Promise<string[]> {
    this.stopping.abort();
    this.queued.clear();
    for (const { retry } of this.keys.values()) if (retry !== null) clearTimeout(retry);
    let grace: NodeJS.Timeout | undefined;
    const over = new Promise((resolve) => (grace = setTimeout(resolve, graceMs)));
    await Promise.race([Promise.all(this.runs), over]);
    clearTimeout(grace);
    const left = [...this.keys].filter(([, { phase }]) => phase === 'running').map(([key]) => key);
    this.keys.clear();
    return this.runs.size === 0 ? [] : left;
  }

  private add(key: string): void {
    if (this.stopping.signal.aborted || this.keys.size >= MAX_KEYS) return;
    const state: KeyState = { phase: 'queued', again: false, failures: 0, failedAt: 0, retry: null };
    this.keys.set(key, state);
    this.enqueue(key, state);
  }

  private enqueue(key: string, state: KeyState): void {
    state.phase = 'queued';
    this.queued.add(key);
    this.startNext();
  }

  private startNext(): void {
    for (const key of this.queued) {
      if (this.runs.size >= this.options.concurrency) return;
      this.queued.delete(key);
      const state = this.keys.get(key) as KeyState;
      state.phase = 'running';
      state.again = false;
      const run = this.runOnce(key, state).finally(() => {
        this.runs.delete(run);
        this.startNext();
      });
      this.runs.add(run);
    }
  }

  private async runOnce(key: string, state: KeyState): Promise<void> {
    // So that a wake never runs anything before it returns to its caller.
    await Promise.resolve();
    try {
      await this.options.run(key, this.stopping.signal);
    } catch (error) {
      if (!this.stopping.signal.aborted) this.fail(key, state, error);
      return;
    }
    if (this.stopping.signal.aborted) return;
    state.failures = 0;
    if (state.again) this.enqueue(key, state);
    else this.keys.delete(key);
  }

  private fail(key: string, state: KeyState, error: unknown): void {
    state.failures += 1;
    state.failedAt = performance.now();
    const { random = Math.random, isOutage } = this.options;
    const last = isOutage?.(error) === true ? LAST_OUTAGE_RETRY_MS : LAST_RETRY_MS;
    const grown = FIRST_RETRY_MS * 2 ** Math.min(state.failures - 1, 10);
    // Jitter of a quarter each way keeps keys that failed together from coming back together.
    const waitMs = Math.min(last, Math.max(FIRST_RETRY_MS, grown * (0.75 + random() / 2)));
    const woken = state.again;
    this.options.onFailure(key, error, waitMs);
    this.retryIn(key, state, woken ? FIRST_RETRY_MS : waitMs);
  }

  private retryIn(key: string, state: KeyState, ms: number): void {
    if (state.retry !== null) clearTimeout(state.retry);
    state.phase = 'waiting';
    state.retry = setTimeout(() => {
      state.retry = null;
      this.enqueue(key, state);
    }, ms);
  }
}
