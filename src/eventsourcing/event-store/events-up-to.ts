import { EventStoreUnavailable, type Position, type StoredEvent } from './event-store.ts';

export interface Batch {
  events: StoredEvent[];
  /** The position up to which the log was read. */
  upTo: Position;
}

/**
 * Reads the events after the position, up to and including `end`, in batches. `endNow` returns the end of the log on the node that is read.
 * Throws `EventStoreUnavailable` if that is before `end`, because the node lags behind the one that reported `end`.
 */
export async function* eventsUpTo(
  after: Position,
  end: Position,
  read: (after: Position) => Promise<Batch>,
  endNow: () => Promise<Position>,
): AsyncGenerator<StoredEvent[]> {
  for (let position = after; position < end;) {
    const { events, upTo } = await read(position);
    if (upTo <= position) {
      const found = await endNow();
      if (found < end) throw new EventStoreUnavailable(new Error(`the log ends at ${found} on this node, and at ${end} on another`));
      return;
    }
    position = upTo;
    const wanted = upTo > end ? events.filter((event) => event.position <= end) : events;
    if (wanted.length > 0) yield wanted;
  }
}
