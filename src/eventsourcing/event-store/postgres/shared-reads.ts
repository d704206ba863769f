import { matches, type EventClass, type EventFilter, type Position, type StoredEvent } from '../event-store.ts';
import type { Batch } from '../events-up-to.ts';
import type { EventReader } from './reading.ts';

/** The bounds on the cached end of the log: the number of events, and the bytes of their data and metadata. */
const CACHED_EVENTS_MAX = 1_000;
const CACHED_BYTES_MAX = 4 * 1024 * 1024;

/** All events of the class after one position, up to another. */
export interface EventRange extends Batch {
  after: Position;
  /** The size of the events' data and metadata, in bytes. */
  size: number;
}

/**
 * Keeps the end of one log in memory. The subscribers at the head wait for the same position and are woken together: one query serves them
 * all, and none is needed if this process appended the events itself. The events after a position never change, and positions have no gaps,
 * so cached ranges stay valid.
 */
export class SharedReads {
  /** The ranges, in order: each begins where the one before ends. */
  private stretches: EventRange[] = [];
  private cachedEvents = 0;
  private cachedBytes = 0;
  private readonly reading = new Map<Position, Promise<EventRange>>();

  constructor(
    private readonly reader: EventReader,
    private readonly eventClass: EventClass,
  ) {}

  /** Returns the events after the position that pass the filter, if all of them are in memory. */
  ranges(after: Position, filter: EventFilter): Batch | null {
    const batch = this.cachedAfter(after);
    return batch && { events: batch.events.filter(matches(filter)), upTo: batch.upTo };
  }

  /** Returns the events after the position that pass the filter. */
  async batch(after: Position, filter: EventFilter): Promise<Batch> {
    const shared = this.cachedAfter(after) ?? (await (this.reading.get(after) ?? this.read(after)).catch(() => null));
    // The shared read began before the events existed, or it failed, perhaps at an unreadable event that this filter excludes: read again.
    if (shared === null || shared.upTo <= after) return this.reader.batch(after, filter);
    return { events: shared.events.filter(matches(filter)), upTo: shared.upTo };
  }

  /**
   * Caches a committed range, and evicts the oldest ranges beyond the bounds. If there is a gap before it, all earlier ranges are evicted.
   */
  cache(stretch: EventRange): void {
    const end = this.stretches.at(-1)?.upTo;
    if (end !== undefined && stretch.upTo <= end) return;
    if (end !== stretch.after) this.evict();
    this.stretches.push(stretch);
    this.cachedEvents += stretch.events.length;
    this.cachedBytes += stretch.size;
    while (this.cachedEvents > CACHED_EVENTS_MAX || this.cachedBytes > CACHED_BYTES_MAX) {
      const oldest = this.stretches.shift();
      this.cachedEvents -= oldest?.events.length ?? 0;
      this.cachedBytes -= oldest?.size ?? 0;
    }
  }

  /** Returns the event of the stream at that revision, if it is cached. */
  find(stream: string, revision: number): StoredEvent | undefined {
    const isWanted = (event: StoredEvent) => event.revision === revision && event.stream === stream;
    return this.stretches.findLast(({ events }) => events.some(isWanted))?.events.find(isWanted);
  }

  /** Returns the events after the position, or null if they are not cached. */
  private cachedAfter(after: Position): Batch | null {
    const first = this.stretches.findLastIndex((stretch) => stretch.after <= after);
    const last = this.stretches.at(-1);
    if (first < 0 || last === undefined || last.upTo <= after) return null;
    // A subscriber at the head stands right before the last stretch.
    if (last.after === after) return last;
    const events = this.stretches.slice(first).flatMap((stretch) => stretch.events);
    return { events: events.filter(({ position }) => position > after), upTo: last.upTo };
  }

  private read(after: Position): Promise<EventRange> {
    const reading = this.reader.batch(after, { eventClass: this.eventClass }).then((batch) => ({ ...batch, after }));
    this.reading.set(after, reading);
    const forget = () => void this.reading.delete(after);
    reading.then((stretch) => {
      forget();
      if (stretch.upTo > after) this.cache(stretch);
    }, forget);
    return reading;
  }

  private evict(): void {
    this.stretches = [];
    this.cachedEvents = 0;
    this.cachedBytes = 0;
  }
}
