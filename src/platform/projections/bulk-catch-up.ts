import type { EventStore, EventsUpTo } from '../event-store/event-store.ts';
import type { Projection } from './projection.ts';
import type { ReadModelTable } from './read-model-table.ts';

/** A read model that is behind by more events takes them in bulk. */
const FAR_EVENTS = 2_000;
/** Events that are folded in memory and written by one transaction, and pieces of a bulk read (1 MiB each at most, but for the last row) that make them up. */
const BATCH_EVENTS = 5_000;
const BATCH_PIECES = 8;

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
