import type { EventStore, EventsUpTo } from '../event-store/event-store.ts';
import type { Projection } from './projection.ts';
import type { ReadModelTable } from './read-model-table.ts';

/** A read model that is behind by more events takes them in bulk. */
const FAR_EVENTS = 2_000;
/** Events that are folded in memory and written by one transaction, and pieces of a bulk read (1 MiB each at most, but for the last row) that make them up. */
const BATCH_EVENTS = 5_000;
const BATCH_PIECES = 8;

/**
 * Folding the log from its beginning takes in about so many times as many events a second as updating the rows that stand, since all read models
 * share one reading and write each row once. So one that lacks more than this share of the log is made anew sooner than it catches up.
 */
const REFILL_SPEED = 4n;

/** Whether making the read model anew ends sooner than catching up with the log. Positions tell how long the log is: counting it would take reading it. */
export async function isRefilledSooner(store: EventStore, { filter }: Projection, table: ReadModelTable): Promise<boolean> {
  const head = BigInt(await store.head(filter.eventClass));
  return (head - BigInt(table.position)) * REFILL_SPEED >= head;
}

/** Whether the table lacks so many events that taking them in bulk pays. */
export async function isFarBehind(store: EventStore, { filter }: Projection, table: ReadModelTable): Promise<boolean> {
  return (await store.lag(table.position, filter.eventClass)).events >= FAR_EVENTS;
}

/** Takes in bulk what the table lacks, until little is left or the signal aborts. Throws what `ReadModelTable.take` throws. */
export async function catchUpInBulk(
  store: EventStore,
  projection: Projection,
  table: ReadModelTable,
  signal: AbortSignal,
  onMoved: () => void,
): Promise<void> {
  while (!signal.aborted && (await isFarBehind(store, projection, table))) {
    const head = await store.head(projection.filter.eventClass);
    for await (const { events, upTo } of inBatches(store.readBulk(table.position, head, projection.filter))) {
      // A batch may have gone in up to its poison event.
      if (upTo > table.position) await table.take(events, upTo, BATCH_EVENTS).finally(onMoved);
      if (signal.aborted) return;
    }
    if (head > table.position) await table.take([], head).finally(onMoved);
  }
}

async function* inBatches(pieces: AsyncIterable<EventsUpTo>): AsyncGenerator<EventsUpTo> {
  let batch: EventsUpTo = { events: [], upTo: '' };
  let taken = 0;
  for await (const { events, upTo } of pieces) {
    batch = { events: [...batch.events, ...events], upTo };
    taken += 1;
    if (batch.events.length < BATCH_EVENTS && taken < BATCH_PIECES) continue;
    yield batch;
    batch = { events: [], upTo };
    taken = 0;
  }
  if (taken > 0) yield batch;
}
