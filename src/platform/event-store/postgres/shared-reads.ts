import { passes, type EventClass, type EventFilter, type Position, type StoredEvent } from '../event-store.ts';
import type { Batch } from '../log-subscription.ts';
import type { EventReader } from './reading.ts';

/** The bounds on what is kept of the log's end: events, and bytes of their data and metadata. */
const KEPT_EVENTS_MAX = 1_000;
const KEPT_BYTES_MAX = 4 * 1024 * 1024;

/** All events of the class that follow one position, up to another. */
export interface Stretch extends Batch {
  after: Position;
  /** Of the events' data and metadata, bytes. */
  size: number;
}

/**
 * The end of one log, as far as it is in memory. Those who follow the log wait at the same place and are woken together: one query serves
 * them all, and none is needed where this process appended the events itself. What follows a position never changes, and positions
 * have no gaps, so what is kept is right for whoever asks later, too.
 */
export class SharedReads {
  /** Each begins where the one before ends. */
  #kept: Stretch[] = [];
  #keptEvents = 0;
  #keptBytes = 0;
  readonly #reading = new Map<Position, Promise<Stretch>>();

  constructor(
    private readonly reader: EventReader,
    private readonly eventClass: EventClass,
  ) {}

  /** Each takes what its filter lets pass. */
  async batch(after: Position, filter: EventFilter): Promise<Batch> {
    const shared = this.#following(after) ?? (await (this.#reading.get(after) ?? this.#read(after)).catch(() => null));
    // It was asked before there was more, it failed, or holds an event that another filter may keep out: then this one asks for itself.
    if (shared === null || shared.upTo <= after) return this.reader.batch(after, filter);
    return { events: shared.events.filter((event) => passes(event, filter)), upTo: shared.upTo };
  }

  /** Keeps what is committed, and gives up the oldest. Where events are missing before it, these are all that is kept. */
  keep(stretch: Stretch): void {
    const end = this.#kept.at(-1)?.upTo;
    if (end !== undefined && stretch.upTo <= end) return;
    if (end !== stretch.after) this.#forget();
    this.#kept.push(stretch);
    this.#keptEvents += stretch.events.length;
    this.#keptBytes += stretch.size;
    while (this.#keptEvents > KEPT_EVENTS_MAX || this.#keptBytes > KEPT_BYTES_MAX) {
      const oldest = this.#kept.shift();
      this.#keptEvents -= oldest?.events.length ?? 0;
      this.#keptBytes -= oldest?.size ?? 0;
    }
  }

  /** The event of the stream at that revision where it is kept. */
  find(stream: string, revision: number): StoredEvent | undefined {
    const isWanted = (event: StoredEvent) => event.revision === revision && event.stream === stream;
    return this.#kept.findLast(({ events }) => events.some(isWanted))?.events.find(isWanted);
  }

  /** Null where it is not kept. */
  #following(after: Position): Batch | null {
    const first = this.#kept.findLastIndex((stretch) => stretch.after <= after);
    const last = this.#kept.at(-1);
    if (first < 0 || last === undefined || last.upTo <= after) return null;
    const events = this.#kept.slice(first).flatMap((stretch) => stretch.events);
    return { events: events.filter(({ position }) => position > after), upTo: last.upTo };
  }

  #read(after: Position): Promise<Stretch> {
    const reading = this.reader.batch(after, { eventClass: this.eventClass }).then((batch) => ({ ...batch, after }));
    this.#reading.set(after, reading);
    const forget = () => void this.#reading.delete(after);
    reading.then((stretch) => {
      forget();
      if (stretch.upTo > after) this.keep(stretch);
    }, forget);
    return reading;
  }

  #forget(): void {
    this.#kept = [];
    this.#keptEvents = 0;
    this.#keptBytes = 0;
  }
}
