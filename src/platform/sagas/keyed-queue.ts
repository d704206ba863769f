import { type Claim, type Priority, Slots } from './slots.ts';

/** Milliseconds to wait after the first failed run in a row; doubled with each further one up to the last. */
const FIRST_RETRY_MS = 1_000;
const LAST_RETRY_MS = 60_000;
/** The same where the store was away: no key can help that, and all of them wait for its return. */
const LAST_OUTAGE_RETRY_MS = 5_000;
const STOP_GRACE_MS = 10_000;
/** Keys known at once: queued, running, aside, or waiting for a retry. */
const MAX_KEYS = 100_000;
const TOP_ACCOUNTS = 10;
/** In the place of an account that nobody knows. */
const UNKNOWN = '';

/** What a run may do with its slot. */
export interface Run {
  key: string;
  /** Whether the run before it failed. */
  isRepeat: boolean;
  /** Aborts when the queue stops or drops the key. */
  signal: AbortSignal;
  /** Does work that mostly waits, without the slot; the run holds a slot again when it returns or throws. */
  aside: <T>(work: () => Promise<T>) => Promise<T>;
  /** Tells whose key it is. */
  belongsTo: (account: string) => void;
}

export interface KeyedQueueOptions {
  /** Runs that hold a slot at once. */
  concurrency: number;
  run(run: Run): Promise<void>;
  /** Told of every failed run. */
  onFailure(key: string, error: unknown, retryInMs: number): void;
  /** Whether the run failed because the store was away. */
  isOutage?: (error: unknown) => boolean;
  /** 0 ≤ x < 1; `Math.random` unless told. */
  random?: () => number;
  /** Keys known at once; 100,000 unless told. */
  maxKeys?: number;
}

export interface KeyedQueueStats {
  /** Keys, and runs that come back from `aside`, that wait for a slot. */
  queued: Record<Priority, number>;
  /** Runs that hold a slot. */
  working: number;
  /** Runs inside `aside`. */
  aside: number;
  /** Keys that wait for a retry. */
  retrying: number;
  /** Wakes that were dropped because too many keys are known, since the start. */
  dropped: number;
  /** How long the work that waits longest for a slot has waited, ms. */
  oldestWaitMs: number;
  /** The accounts with the most keys, at most ten; null counts the keys whose account nobody knows. */
  topAccounts: { account: string | null; keys: number }[];
}

interface KeyState {
  key: string;
  phase: 'queued' | 'running' | 'retrying';
  claim: Claim;
  /** Woken while it runs. */
  again: boolean;
  failures: number;
  failedAt: number;
  retry: NodeJS.Timeout | null;
  /** Ends the run that goes on. */
  abort: AbortController | null;
  /** Resolves when the run has its slot again. */
  returned: Promise<void> | null;
}

/**
 * Keys in, runs out. A key has one run at a time; wakes of a key melt into one run, and those that come during a run into exactly one
 * more. Signals go before reminders, and accounts take turns (see `Slots`). A failed run is repeated after a growing wait; a signal
 * shortens that wait to 1 s after the failure.
 *
 * The keys known at once are bounded, and an account may have as many as there are places free: so no account fills the queue, and there
 * is always a place for another one. A wake beyond that is dropped: a later resync brings its key back.
 */
export class KeyedQueue {
  private readonly keys = new Map<string, KeyState>();
  private readonly keysByAccount = new Map<string, number>();
  private readonly runs = new Map<KeyState, Promise<void>>();
  private readonly slots: Slots;
  private readonly maxKeys: number;
  private retrying = 0;
  private dropped = 0;
  private stopped = false;

  constructor(private readonly options: KeyedQueueOptions) {
    this.slots = new Slots(options.concurrency);
    this.maxKeys = options.maxKeys ?? MAX_KEYS;
  }

  /** Something may have changed for the key. False where it was dropped. */
  wake(key: string, account: string | null = null): boolean {
    if (this.stopped) return false;
    const state = this.keys.get(key);
    if (state === undefined) return this.add(key, account, 'signal');
    this.classify(state, account ?? state.claim.account, 'signal');
    if (state.phase === 'running') state.again = true;
    // Not at once: what a failing run itself appends must not make it run without a pause.
    else if (state.phase === 'retrying') this.retryIn(state, Math.max(0, FIRST_RETRY_MS - (performance.now() - state.failedAt)));
    return true;
  }

  /** Nobody knows of a change, but the key may have been forgotten: nothing happens where it is known. False as for `wake`. */
  remind(key: string, account: string | null = null): boolean {
    return this.keys.has(key) || this.add(key, account, 'reminder');
  }

  /** Takes time in proportion to the accounts that have keys here. */
  stats(): KeyedQueueStats {
    const { waiting, working, oldestWaitMs } = this.slots;
    const known = this.keys.size - this.retrying;
    return {
      queued: waiting,
      working,
      aside: known - waiting.signal - waiting.reminder - working,
      retrying: this.retrying,
      dropped: this.dropped,
      oldestWaitMs,
      topAccounts: [...this.keysByAccount]
        .sort(([, a], [, b]) => b - a)
        .slice(0, TOP_ACCOUNTS)
        .map(([account, keys]) => ({ account: account === UNKNOWN ? null : account, keys })),
    };
  }

  /** The keys that have a run now. */
  *running(): Iterable<string> {
    for (const { key } of this.runs.keys()) yield key;
  }

  /** Starts nothing more, aborts what runs and waits for it, at most `graceMs`. Answers the keys whose runs took no notice. */
  async stop(graceMs = STOP_GRACE_MS): Promise<string[]> {
    this.stopped = true;
    return this.drop(() => true, graceMs);
  }

  /** Forgets the keys, aborts their runs and waits for those, at most `graceMs`. Answers the keys whose runs took no notice. */
  async drop(concerns: (key: string) => boolean, graceMs = STOP_GRACE_MS): Promise<string[]> {
    const running: KeyState[] = [];
    for (const state of [...this.keys.values()].filter(({ key }) => concerns(key))) {
      if (state.phase === 'running') running.push(state);
      else this.forget(state);
      state.again = false;
      state.abort?.abort();
    }
    const ended = Promise.all(running.flatMap((state) => this.runs.get(state) ?? []));
    let grace: NodeJS.Timeout | undefined;
    const over = new Promise((resolve) => (grace = setTimeout(resolve, graceMs)));
    await Promise.race([ended, over]);
    clearTimeout(grace);
    return running.filter(({ abort }) => abort?.signal.aborted).map(({ key }) => key);
  }

  private add(key: string, account: string | null, priority: Priority): boolean {
    if (this.stopped) return false;
    const name = account ?? UNKNOWN;
    if (this.keys.size + (this.keysByAccount.get(name) ?? 0) >= this.maxKeys) {
      this.dropped += 1;
      return false;
    }
    const claim: Claim = { account: name, priority, phase: 'idle', since: 0, place: null, onGranted: () => undefined };
    const state: KeyState = {
      key,
      phase: 'queued',
      claim,
      again: false,
      failures: 0,
      failedAt: 0,
      retry: null,
      abort: null,
      returned: null,
    };
    this.keys.set(key, state);
    this.count(name, 1);
    this.enqueue(state);
    return true;
  }

  private forget(state: KeyState): void {
    if (state.phase === 'retrying') this.retrying -= 1;
    if (state.retry !== null) clearTimeout(state.retry);
    this.keys.delete(state.key);
    this.count(state.claim.account, -1);
    this.slots.release(state.claim);
  }

  private count(account: string, change: 1 | -1): void {
    const keys = (this.keysByAccount.get(account) ?? 0) + change;
    if (keys === 0) this.keysByAccount.delete(account);
    else this.keysByAccount.set(account, keys);
  }

  private classify(state: KeyState, account: string, priority: Priority): void {
    if (state.claim.account !== account) {
      this.count(state.claim.account, -1);
      this.count(account, 1);
    }
    this.slots.reclassify(state.claim, account, priority);
  }

  private enqueue(state: KeyState): void {
    state.phase = 'queued';
    state.claim.onGranted = () => this.start(state);
    this.slots.request(state.claim);
  }

  private start(state: KeyState): void {
    const abort = new AbortController();
    state.phase = 'running';
    state.again = false;
    state.abort = abort;
    this.runs.set(state, this.runOnce(state, abort));
  }

  private async runOnce(state: KeyState, abort: AbortController): Promise<void> {
    // So that a wake never runs anything before it returns to its caller.
    await Promise.resolve();
    let failure: { error: unknown } | null = null;
    try {
      await this.options.run({
        key: state.key,
        isRepeat: state.failures > 0,
        signal: abort.signal,
        aside: (work) => this.aside(state, abort, work),
        belongsTo: (account) => {
          if (state.abort === abort) this.classify(state, account, state.claim.priority);
        },
      });
    } catch (error) {
      failure = { error };
    }
    this.finish(state, abort.signal.aborted ? null : failure);
  }

  private finish(state: KeyState, failure: { error: unknown } | null): void {
    state.abort = null;
    this.runs.delete(state);
    // An `aside` that the run did not wait for has nothing to wait for any more.
    if (state.claim.phase === 'waiting') state.claim.onGranted();
    this.slots.release(state.claim);
    if (failure !== null) return this.fail(state, failure.error);
    state.failures = 0;
    if (state.again) this.enqueue(state);
    else this.forget(state);
  }

  private async aside<T>(state: KeyState, run: AbortController, work: () => Promise<T>): Promise<T> {
    if (state.abort === run && state.claim.phase === 'held') this.slots.release(state.claim);
    try {
      return await work();
    } finally {
      if (state.abort === run) await this.comeBack(state);
    }
  }

  /** Of several that come back at once, all wait for the same slot. */
  private comeBack(state: KeyState): Promise<void> {
    const { claim } = state;
    if (claim.phase === 'held') return Promise.resolve();
    if (claim.phase === 'idle')
      state.returned = new Promise((resolve) => {
        claim.onGranted = resolve;
        this.slots.request(claim, true);
      });
    return state.returned as Promise<void>;
  }

  private fail(state: KeyState, error: unknown): void {
    state.failures += 1;
    state.failedAt = performance.now();
    const { random = Math.random, isOutage } = this.options;
    const last = isOutage?.(error) === true ? LAST_OUTAGE_RETRY_MS : LAST_RETRY_MS;
    const grown = FIRST_RETRY_MS * 2 ** Math.min(state.failures - 1, 10);
    // Jitter of a quarter each way keeps keys that failed together from coming back together.
    const waitMs = Math.min(last, Math.max(FIRST_RETRY_MS, grown * (0.75 + random() / 2)));
    this.options.onFailure(state.key, error, waitMs);
    state.phase = 'retrying';
    this.retrying += 1;
    this.retryIn(state, state.again ? FIRST_RETRY_MS : waitMs);
  }

  private retryIn(state: KeyState, ms: number): void {
    if (state.retry !== null) clearTimeout(state.retry);
    state.retry = setTimeout(() => {
      state.retry = null;
      this.retrying -= 1;
      this.enqueue(state);
    }, ms);
  }
}
