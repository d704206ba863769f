/**
 * Owns the unwrapped data keys that this process may use without a look at the table. It does not read them, and does not follow the log.
 *
 * 1. A key is used for at most a second after the look that found it.
 * 2. The key of a subject whose end is logged is used for longer, until this process has the event of that end. It is used at most a second
 *    after that event was appended: only while all that was in the log within the last second is known to have been passed on here.
 * 3. After that event, or after a gap in what was passed on, the key is read again before it is used.
 * 4. At most 5,000 subjects are kept, those used last.
 */
import type { KeyObject } from 'node:crypto';

import { LRUCache } from 'lru-cache';

import type { FollowedLog, SubjectEnds } from './keyring.ts';

/** The time of invariants 1 and 2, in ms. */
const FRESH_MS = 1_000;
const SUBJECTS_MAX = 5_000;
/** The most subjects that are known to end: those whose keys are read every second until they are destroyed. */
const ENDED_MAX = 10_000;

/** A subject's keys by version; `shredded` is true if the subject has a tombstone. */
export interface SubjectKeys {
  byVersion: Map<number, KeyObject>;
  shredded: boolean;
}

interface Entry {
  keys: Promise<SubjectKeys>;
  readAt: number;
}

export class KeyCache {
  private readonly entries = new LRUCache<string, Entry>({ max: SUBJECTS_MAX });
  private readonly ended = new LRUCache<string, true>({ max: ENDED_MAX });
  private log: FollowedLog = { currentAt: -Infinity };

  /** Returns the subject's keys if they may be used now. */
  find(subject: string, endIsLogged: boolean): Promise<SubjectKeys> | undefined {
    const entry = this.entries.get(subject);
    if (entry === undefined) return undefined;
    const since = performance.now() - FRESH_MS;
    // (1), (2)
    const isUsable = entry.readAt > since || (endIsLogged && this.log.currentAt > since && !this.ended.has(subject));
    return isUsable ? entry.keys : undefined;
  }

  /** Keeps the keys, whose age counts from now, the start of their read. */
  remember(subject: string, keys: Promise<SubjectKeys>): Promise<SubjectKeys> {
    const entry = { keys, readAt: performance.now() };
    this.entries.set(subject, entry);
    keys.catch(() => {
      if (this.entries.peek(subject) === entry) this.entries.delete(subject);
    });
    return keys;
  }

  delete(subject: string): void {
    this.entries.delete(subject);
  }

  /** See `Keyring.rememberUntilEnded`. */
  follow(log: FollowedLog): SubjectEnds {
    this.log = log;
    return {
      // (3)
      onEnd: (subject) => {
        this.ended.set(subject, true);
        this.entries.delete(subject);
      },
      onGap: () => this.entries.clear(),
    };
  }
}
