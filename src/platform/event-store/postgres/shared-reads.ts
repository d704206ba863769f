import { passes, type EventClass, type EventFilter, type Position } from '../event-store.ts';
import type { Batch } from '../log-subscription.ts';
import type { EventReader } from './reading.ts';

/** Places whose following events are kept for those who come next, and how many events one of them may hold. */
const maxPlaces = 4;
const maxEvents = 200;

/**
 * Those who follow a log wait at the same place, its head, and are woken together: one query serves them all, and each takes what
 * its filter lets pass. What follows a place never changes, so an answer that holds something is right for whoever asks later, too.
 */
export class SharedReads {
  readonly #places = new Map<Position, Promise<Batch>>();

  constructor(
    private readonly reader: EventReader,
    private readonly eventClass: EventClass,
  ) {}

  async batch(after: Position, filter: EventFilter): Promise<Batch> {
    const shared = await (this.#places.get(after) ?? this.#read(after)).catch(() => null);
    // It was asked before there was more, it failed, or holds an event that another filter may keep out: then this one asks for itself.
    if (shared === null || shared.upTo <= after) return this.reader.batch(after, filter);
    return { events: shared.events.filter((event) => passes(event, filter)), upTo: shared.upTo };
  }

  #read(after: Position): Promise<Batch> {
    const reading = this.reader.batch(after, { eventClass: this.eventClass });
    this.#places.set(after, reading);
    const [oldest] = this.#places.keys();
    if (this.#places.size > maxPlaces && oldest !== undefined) this.#places.delete(oldest);
    const forget = () => void (this.#places.get(after) === reading && this.#places.delete(after));
    reading.then(({ events, upTo }) => (upTo <= after || events.length > maxEvents) && forget(), forget);
    return reading;
  }
}
