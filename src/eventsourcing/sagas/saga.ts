import type { EventFilter, Position, StoredEvent } from '../event-store/event-store.ts';

/** A key of a saga, and the account that it belongs to. */
export interface SagaKey {
  key: string;
  /** The value is null if the account is not known yet. */
  account: string | null;
}

/** The context of one pass over one key. */
export interface SagaPass {
  /**
   * The oldest position of a stream's state with which the pass may begin (see `Aggregates.load`), if only this saga's passes write the
   * stream. This process has received all events that were in the log when it acquired the key's shard, and it knows its own later ones.
   * Undefined after a failure, since the outcome of an append may be unknown then.
   */
  seenUpTo?: Position | undefined;
  /** A signal that aborts when the pass has to end early. It must not be used after the pass. */
  signal: AbortSignal;
  /**
   * A signal that aborts when another process takes over the key, also after the pass has ended. It is for work that a pass starts and
   * leaves running. It lives for hours, and so does every listener that `AbortSignal.any` adds to it; the pass itself uses `signal`.
   */
  handover: AbortSignal;
  /**
   * Throws if another process may work on the key by now. A pass calls it right before each external action, and before it records a
   * failure: a process that was suspended resumes in the middle of a pass, and finds out by this call before the signal aborts. Events that
   * a pass records are fenced by the revision that it read.
   */
  assertLease: () => void;
  /**
   * Runs work that mostly waits (an image pull, readiness, a reply, a backoff) without holding one of the saga's slots. The pass holds a
   * slot again when this returns or throws.
   */
  withoutSlot: <T>(work: () => Promise<T>) => Promise<T>;
  /** Sets the account that the key belongs to, so that accounts can take turns. A pass calls it as soon as it knows the account. */
  setAccount: (account: string) => void;
}

/**
 * Reconciles the actual state with the desired state in the log. Its queue contains only keys: each pass reads the desired state, observes
 * the actual one, makes the missing changes, and records the result. Signals (events, engine events, deadlines, callers) only wake it, so a
 * lost or duplicate signal changes nothing.
 */
export interface Saga {
  name: string;
  filter: EventFilter;
  /** The number of passes that may hold a slot at once, without those inside `withoutSlot`. A key never has two passes at once. */
  concurrency: number;
  /** Returns the key that the event concerns, which belongs to the account in the event's metadata; null if there is none. */
  keyOf(event: StoredEvent): string | null;
  /**
   * Runs one pass over the key. Returns the time at which it wants to be woken without a signal (this is stored and survives a crash), or
   * null. If it throws, it is repeated after a growing wait (1 s … 60 s, with jitter).
   */
  reconcile(key: string, pass: SagaPass): Promise<Date | null>;
  /**
   * Returns exactly the keys that need work although no signal arrived. It is called at a take-over and every 30 s, less often if it takes
   * long (`pauseAfter`); the keys run at low priority. The container list that it uses may be `maxAgeMs` old. At a take-over that is the
   * time since the take-over, since the previous holder knew of everything before.
   */
  resync(maxAgeMs: number): Promise<SagaKey[]>;
}

/** The interface of the sagas to features, which register theirs and wake keys. */
export abstract class Sagas {
  abstract register(saga: Saga): void;
  /** Adds the key to the saga's queue at high priority. Equal keys lead to one run; a key that is running runs once more. */
  abstract wake(saga: string, key: string, account?: string): void;
}

export interface SagaStep {
  saga: string;
  key: string;
  step: string;
}

/** The name of the `diagnostics_channel` on which every completed step of a saga is published, as a `SagaStep`. */
export const SAGA_STEP_CHANNEL = 'mooring.saga.step';
