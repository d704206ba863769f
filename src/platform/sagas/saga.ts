import type { EventFilter, Position, StoredEvent } from '../event-store/event-store.ts';

/** A key of a saga, and the account that it belongs to. */
export interface SagaKey {
  key: string;
  /** Null where nobody knows it yet. */
  account: string | null;
}

/** One pass over one key. */
export interface SagaPass {
  key: string;
  /**
   * A state of a stream that only this saga's passes record on is new enough to begin with where it holds the log up to here (see
   * `Aggregates.load`): all was heard that was in the log when this process took the key over, and what it recorded since it knows. Undefined after a failure, since
   * the outcome of a record may be unknown then.
   */
  heardUpTo?: Position | undefined;
  /** Aborts when the saga has to step aside. It is over with the pass. */
  signal: AbortSignal;
  /**
   * Aborts when another process takes the key over, also after the pass has ended: for work that a pass starts and leaves to go on. It
   * lives for hours, and whatever is combined with it by `AbortSignal.any` and listened to lives as long: a pass uses `signal`.
   */
  handover: AbortSignal;
  /**
   * Throws where another process may be at the key by now. A pass calls it right before each thing that it does to the world, and before
   * it records what it saw fail: a process that was suspended goes on in the middle of a pass, and finds out by this before the signal
   * tells. What a pass records is fenced by the revision that it read.
   */
  mayAct: () => void;
  /**
   * Does work that mostly waits (an image pull, readiness, a reply, a backoff) without holding one of the saga's slots. The pass holds a
   * slot again when this returns or throws.
   */
  aside: <T>(work: () => Promise<T>) => Promise<T>;
  /** Tells whose key it is, for fair turns, as soon as the pass knows it. */
  belongsTo: (account: string) => void;
}

/**
 * Makes the world match what the log wants. Its queue holds keys only: each pass reads what is wanted, looks at what is, does what is
 * missing, and records what became true. Signals (events, engine events, deadlines, callers) only wake it, so a lost or doubled signal
 * changes nothing.
 */
export interface Saga {
  name: string;
  filter: EventFilter;
  /** Passes that work at once; those inside `aside` do not count. One key never has two passes at once. */
  concurrency: number;
  /** The key that the event concerns, of the account that its metadata names; null where it concerns none. */
  keyOf(event: StoredEvent): string | null;
  /**
   * One pass. Answers when it wants to be woken again without any signal (stored: it survives a crash), or null.
   * A throw means: again, after a growing wait (1 s … 60 s, with jitter).
   */
  run(pass: SagaPass): Promise<Date | null>;
  /**
   * The keys that need work though no signal told, and only those: asked at a take-over, and every 30 s, less often where that takes long
   * (`restAfter`). They run at low priority. What it looks at may have been seen so long ago (ms): at a take-over not before that, since
   * what happened until then was told to whoever had the keys.
   */
  resync(maxAgeMs: number): Promise<SagaKey[]>;
}

/** The sagas' front: features register theirs and wake keys. */
export abstract class Sagas {
  abstract register(saga: Saga): void;
  /** Puts the key into the saga's queue at high priority; equal keys melt into one run, a key under way runs once more. */
  abstract wake(saga: string, key: string, account?: string): void;
}

export interface SagaStep {
  saga: string;
  key: string;
  step: string;
}

/** The `diagnostics_channel` on which every step that a saga has completed is told, as a `SagaStep`. */
export const SAGA_STEP_CHANNEL = 'mooring.saga.step';
