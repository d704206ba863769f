import type { EventStore, EventsUpTo } from '../../event-store/event-store.ts';
import type { Projection } from '../projection.ts';
import type { ReadModelTable } from '../tables/read-model-table.ts';

/** The number of missing events above which a read model catches up in bulk. */
const FAR_EVENTS = 2_000;
/**
 * A batch is applied in memory and written by one transaction. It ends after this many events, or this many pieces of a bulk read (each at
 * most 1 MiB, except for its last row).
 */
const BATCH_EVENTS = 5_000;
const BATCH_PIECES = 8;

/**
 * A rebuild applies about this many times as many events a second as updating existing rows does, because all read models share one reading
 * of the log and each row is written once. So a read model that lacks more than this fraction of the log is rebuilt sooner than it catches
 * up.
 */
const REFILL_SPEED = 4n;

/**
 * Returns whether a rebuild would end sooner than catching up with the log. It compares positions, since counting the events would mean
 * reading the log.
 */
export async function isRebuildFaster(store: EventStore, { filter }: Projection, table: ReadModelTable): Promise<boolean> {
  const head = BigInt(await store.head(filter.eventClass));
  return (head - BigInt(table.position)) * REFILL_SPEED >= head;
}

/** Returns whether the table lacks so many events that catching up in bulk is faster. */
export async function isFarBehind(store: EventStore, { filter }: Projection, table: ReadModelTable): Promise<boolean> {
  return (await store.lag(table.position, filter.eventClass)).events >= FAR_EVENTS;
}

/** Applies the events that the table lacks in bulk, until few are left or the signal aborts. Throws what `ReadModelTable.write` throws. */
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
      // If the batch has a poison event, the events before it are in the table.
      if (upTo > table.position) await table.write(events, upTo, BATCH_EVENTS).finally(onMoved);
      if (signal.aborted) return;
    }
    if (head > table.position) await table.write([], head).finally(onMoved);
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
