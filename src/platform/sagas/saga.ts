import type { EventFilter, StoredEvent } from '../event-store/event-store.ts';

/**
 * Makes the world match what the log wants. Its queue holds keys only: each pass reads what is wanted, looks at what
 * is, does what is missing, records what became true. Signals (events, engine events, deadlines, start-up) only wake
 * it, so a lost or doubled signal changes nothing.
 */
export interface Saga {
  name: string;
  filter: EventFilter;
  /** How many keys may be worked on at once. One key is never worked on twice at once. */
  concurrency: number;
  /** The key that the event concerns; null where it concerns none. */
  keyOf(event: StoredEvent): string | null;
  /**
   * One pass. Answers when it wants to be woken again without any signal (stored: it survives a crash), or null.
   * A throw means: again, after a growing wait (1 s … 60 s, with jitter).
   *
   * `mayAct` throws where another process may be at the key by now. A pass calls it right before each thing that it does to the
   * world, and before it records what it saw fail: a process that was suspended goes on in the middle of a pass, and finds out so
   * before the signal tells it. What it records is fenced by the revision that it read.
   */
  run(key: string, signal: AbortSignal, mayAct: () => void): Promise<Date | null>;
  /** Keys that may need work though no signal told: asked at start and every 30 s. */
  resync(): Promise<string[]>;
}

/** The sagas' front: features register theirs and wake keys. */
export abstract class Sagas {
  abstract register(saga: Saga): void;
  /** Puts the key into the saga's queue; equal keys melt into one run, a key under way runs once more. */
  abstract wake(saga: string, key: string): void;
}

export interface SagaStep {
  saga: string;
  key: string;
  step: string;
}

/** The `diagnostics_channel` on which every step that a saga has completed is told, as a `SagaStep`. */
export const SAGA_STEP_CHANNEL = 'mooring.saga.step';
