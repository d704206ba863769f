import { LRUCache } from 'lru-cache';

import type { Position } from '../event-store/event-store.ts';

/** The most streams that are remembered as absent: those that known callers requested, and those that only unknown callers requested. */
const KNOWN_MAX = 10_000;
const ANONYMOUS_MAX = 1_000;

/**
 * Remembers streams that do not exist, each with the position of the log at which that was found. The first event of a stream ends its
 * absence, whichever process appended it, so the follower of the log has to evict the stream. Streams that unknown callers requested never
 * evict others.
 */
export class AbsentStreams {
  private readonly known = new LRUCache<string, Position>({ max: KNOWN_MAX });
  private readonly byAnonymous = new LRUCache<string, Position>({ max: ANONYMOUS_MAX });

  /** Returns the position up to which the stream was found not to exist; undefined if that is not known. */
  get(stream: string): Position | undefined {
    return this.known.get(stream) ?? this.byAnonymous.get(stream);
  }

  add(stream: string, position: Position, isForStranger: boolean): void {
    (isForStranger ? this.byAnonymous : this.known).set(stream, position);
  }

  evict(stream: string): void {
    this.known.delete(stream);
    this.byAnonymous.delete(stream);
  }

  clear(): void {
    this.known.clear();
    this.byAnonymous.clear();
  }
}
