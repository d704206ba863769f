import { LRUCache } from 'lru-cache';

import type { Position } from '../event-store/event-store.ts';

/** The number of streams that are known not to exist, and of those that only callers that are not known have asked for. */
const KNOWN_MAX = 10_000;
const STRANGERS_MAX = 1_000;

/**
 * Remembers streams that do not exist, each with the position of the log when that was found. The first event of a stream ends its absence,
 * whoever appended it, so whoever hears the log's events has to call `forget`. What strangers ask for pushes out nothing that others asked for.
 */
export class AbsentStreams {
  private readonly known = new LRUCache<string, Position>({ max: KNOWN_MAX });
  private readonly ofStrangers = new LRUCache<string, Position>({ max: STRANGERS_MAX });

  /** Returns the position up to which the stream was found not to exist; undefined if that is not known. */
  get(stream: string): Position | undefined {
    return this.known.get(stream) ?? this.ofStrangers.get(stream);
  }

  add(stream: string, position: Position, isForStranger: boolean): void {
    (isForStranger ? this.ofStrangers : this.known).set(stream, position);
  }

  forget(stream: string): void {
    this.known.delete(stream);
    this.ofStrangers.delete(stream);
  }

  clear(): void {
    this.known.clear();
    this.ofStrangers.clear();
  }
}
