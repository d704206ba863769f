/**
 * Runs the keys of one saga, each at most once at a time.
 *
 * Owns: the known keys, their runs, retries and retry timers, and the slots that runs hold. Does not own which keys this process may work
 * on (`SagaRunner`), when a key is due (`Deadlines`), or the order in which claims get slots (`Slots`).
 *
 * Q1  A key has at most one run at a time. Wakes before the run lead to that one, and wakes during it to exactly one more.
 * Q2  A run starts after the wake that caused it, so it sees everything that happened before that wake.
 * Q3  A failed run is retried until it succeeds or the key is dropped. The wait doubles up to a bound, and a signal never shortens it below
 *     the first wait.
 * Q4  The number of known keys is bounded. An account may have only as many keys as there are free places, so there is always a place for
 *     another account. Wakes beyond that are dropped, and a later resync finds their keys.
 * Q5  A run holds at most one slot. It has none during `withoutSlot`, and holds one again when that returns.
 * Q6  Signals go before reminders, and accounts take turns (see `Slots`).
 */
import { AccountCounter } from '../../kernel/limits/account-counter.ts';
import { type Claim, type Priority, Slots } from './slots.ts';

/** The longest wait after a failed run, in ms. */
const LAST_RETRY_MS = 60_000;
/**
 * The longest wait if the run failed because the event store was unavailable, in ms. It is shorter because every key waits until the store
 * is available again.
 */
const LAST_OUTAGE_RETRY_MS = 5_000;
const STOP_GRACE_MS = 10_000;
/** The default bound on the keys known at once: queued, running, without a slot, or waiting for a retry. */
const KEYS_MAX = 100_000;
const TOP_ACCOUNTS = 10;
/** Stands in for the account of a key whose account is unknown. */
const UNKNOWN = '';

/** The context of a run, which has a slot. */
export interface Run {
  key: string;
  /** The value is true if the run before it failed. */
  isRepeat: boolean;
  /** A signal that aborts when the queue stops or drops the key. */
  signal: AbortSignal;
  /** Runs work that mostly waits, without the slot; the run holds a slot again when this returns or throws. */
  withoutSlot: <T>(work: () => Promise<T>) => Promise<T>;
  /** Sets the account that the key belongs to. */
  setAccount: (account: string) => void;
}

export interface KeyedQueueOptions {
  /** The number of runs that may hold a slot at once. */
  concurrency: number;
  /** The wait after the first failed run in a row, in ms. Each further failure doubles it, up to 60 s. */
  firstRetryMs: number;
  run(run: Run): Promise<void>;
  /** Called after every failed run. */
  onFailure(key: string, error: unknown, retryInMs: number): void;
  /** Returns whether the run failed because the event store was unavailable. */
  isOutage?: (error: unknown) => boolean;
  /** Returns a number with 0 ≤ x < 1; the default is `Math.random`. */
  random?: () => number;
  /** The bound on the keys known at once; the default is 100,000. */
  maxKeys?: number;
}

export interface KeyedQueueStats {
  /** The number of keys that wait for a slot, and of runs that wait for theirs after `withoutSlot`. */
  queued: Record<Priority, number>;
  /** The number of runs that hold a slot. */
  working: number;
  /** The number of runs inside `withoutSlot`. */
  aside: number;
  /** The number of keys that wait for a retry. */
  retrying: number;
  /** The number of wakes since the start that were dropped because too many keys were known. */
  dropped: number;
  /** The longest time that any work has waited for a slot, in ms. */
  oldestWaitMs: number;
  /** The accounts with the most keys, at most ten; null counts the keys whose account is unknown. */
  topAccounts: { account: string | null; keys: number }[];
}

interface KeyState {
  key: string;
  phase: 'queued' | 'running' | 'retrying';
  claim: Claim;
  /** Q1: The value is true if the key was woken while it runs. */
  rerun: boolean;
  failures: number;
  failedAt: number;
  retry: NodeJS.Timeout | null;
  /** Aborts the current run. */
  abort: AbortController | null;
  /** Resolves when the run has its slot again. */
  returned: Promise<void> | null;
}

/** A queue of keys with retries. See Q1 to Q6. */
export class KeyedQueue {
  private readonly keys = new Map<string, KeyState>();
  private readonly keysOf = new AccountCounter();
  private readonly runs = new Map<KeyState, Promise<void>>();
  private readonly slots: Slots;
  private readonly maxKeys: number;
  private retrying = 0;
  private dropped = 0;
  private stopped = false;

  constructor(private readonly options: KeyedQueueOptions) {
    this.slots = new Slots(options.concurrency);
    this.maxKeys = options.maxKeys ?? KEYS_MAX;
  }

  /** Queues the key, because something may have changed for it. Returns false if the wake was dropped. */
  wake(key: string, account: string | null = null): boolean {
    if (this.stopped) return false;
    const state = this.keys.get(key);
    if (state === undefined) return this.add(key, account, 'signal');
    this.classify(state, account ?? state.claim.account, 'signal');
    if (state.phase === 'running') state.rerun = true;
    // Q3: A signal shortens no wait below the first one, or the events that a failing run itself appends would make it run without a pause.
    else if (state.phase === 'retrying') {
      const { firstRetryMs } = this.options;
      this.retryIn(state, Math.max(0, firstRetryMs - (performance.now() - state.failedAt)));
    }
    return true;
  }

  /**
   * Queues the key at low priority, in case a change was missed. Does nothing if the key is known. Returns false if the reminder was
   * dropped.
   */
  remind(key: string, account: string | null = null): boolean {
    return this.keys.has(key) || this.add(key, account, 'reminder');
  }

  /** Returns the counts. It takes time in proportion to the number of accounts that have keys here. */
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
      topAccounts: this.keysOf
        .byAccount()
        .slice(0, TOP_ACCOUNTS)
        .map(([account, keys]) => ({ account: account === UNKNOWN ? null : account, keys })),
    };
  }

  /** Yields the keys that have a run now. */
  *running(): Iterable<string> {
    for (const { key } of this.runs.keys()) yield key;
  }

  /** Starts nothing more, aborts all runs and waits for them, at most `graceMs`. Returns the keys whose runs ignored the abort. */
  async stop(graceMs = STOP_GRACE_MS): Promise<string[]> {
    this.stopped = true;
    return this.drop(() => true, graceMs);
  }

  /** Removes the keys, aborts their runs and waits for those, at most `graceMs`. Returns the keys whose runs ignored the abort. */
  async drop(concerns: (key: string) => boolean, graceMs = STOP_GRACE_MS): Promise<string[]> {
    const running: KeyState[] = [];
    for (const state of [...this.keys.values()].filter(({ key }) => concerns(key))) {
      if (state.phase === 'running') running.push(state);
      else this.remove(state);
      state.rerun = false;
      state.abort?.abort();
    }
    const ended = Promise.all(running.flatMap((state) => this.runs.get(state) ?? []));
    await new Promise<void>((resolve, reject) => {
      const grace = setTimeout(resolve, graceMs);
      ended.then(() => resolve(), reject).finally(() => clearTimeout(grace));
    });
    return running.filter(({ abort }) => abort?.signal.aborted).map(({ key }) => key);
  }

  private add(key: string, account: string | null, priority: Priority): boolean {
    if (this.stopped) return false;
    const name = account ?? UNKNOWN;
    // Q4
    if (this.keys.size + this.keysOf.of(name) >= this.maxKeys) {
      this.dropped += 1;
      return false;
    }
    const claim: Claim = { account: name, priority, phase: 'idle', since: 0, place: null, onGranted: () => undefined };
    const state: KeyState = {
      key,
      phase: 'queued',
      claim,
      rerun: false,
      failures: 0,
      failedAt: 0,
      retry: null,
      abort: null,
      returned: null,
    };
    this.keys.set(key, state);
    this.keysOf.add({ account: name }, 1);
    this.enqueue(state);
    return true;
  }

  private remove(state: KeyState): void {
    if (state.phase === 'retrying') this.retrying -= 1;
    if (state.retry !== null) clearTimeout(state.retry);
    this.keys.delete(state.key);
    this.keysOf.add(state.claim, -1);
    this.slots.release(state.claim);
  }

  private classify(state: KeyState, account: string, priority: Priority): void {
    if (state.claim.account !== account) {
      this.keysOf.add(state.claim, -1);
      this.keysOf.add({ account }, 1);
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
    state.rerun = false;
    state.abort = abort;
    this.runs.set(state, this.runOnce(state, abort));
  }

  private async runOnce(state: KeyState, abort: AbortController): Promise<void> {
    // Q2: The run starts only after `wake` has returned to its caller.
    await Promise.resolve();
    let failure: { error: unknown } | null = null;
    try {
      await this.options.run({
        key: state.key,
        isRepeat: state.failures > 0,
        signal: abort.signal,
        withoutSlot: (work) => this.withoutSlot(state, abort, work),
        setAccount: (account) => {
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
    // This ends a `withoutSlot` call that the run did not await and that still waits for a slot.
    if (state.claim.phase === 'waiting') state.claim.onGranted();
    this.slots.release(state.claim);
    if (failure !== null) return this.fail(state, failure.error);
    state.failures = 0;
    if (state.rerun) this.enqueue(state);
    else this.remove(state);
  }

  private async withoutSlot<T>(state: KeyState, run: AbortController, work: () => Promise<T>): Promise<T> {
    if (state.abort === run && state.claim.phase === 'held') this.slots.release(state.claim);
    try {
      return await work();
    } finally {
      if (state.abort === run) await this.regainSlot(state);
    }
  }

  /** Q5: Resolves when the run has a slot again. If several `withoutSlot` calls return at once, all wait for the same slot. */
  private regainSlot(state: KeyState): Promise<void> {
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
    const { firstRetryMs, random = Math.random, isOutage } = this.options;
    const last = isOutage?.(error) === true ? LAST_OUTAGE_RETRY_MS : LAST_RETRY_MS;
    const grown = firstRetryMs * 2 ** Math.min(state.failures - 1, 10);
    // A jitter of a quarter each way keeps keys that failed together from being retried together.
    const waitMs = Math.min(last, Math.max(firstRetryMs, grown * (0.75 + random() / 2)));
    this.options.onFailure(state.key, error, waitMs);
    state.phase = 'retrying';
    this.retrying += 1;
    this.retryIn(state, state.rerun ? firstRetryMs : waitMs);
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
