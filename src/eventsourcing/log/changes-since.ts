import type { StoredEvent } from '../event-store/event-store.ts';

/** The events that are read back at most. */
const EVENTS_MAX = 10_000;

interface Changes {
  /** The events that changed a key since the moment, the newest first, and of each such key the last one before it. */
  events: StoredEvent[];
  /** The value is false if the stream begins after the moment. */
  isReached: boolean;
}

/**
 * Returns the changes of keys since a moment, together with what they took the place of. `events` are those of a stream, the newest first; `keyOf`
 * returns the key that an event changes, or null; `isMoment` returns whether the walk back has come to the moment, and is not asked again then. Returns
 * null if it would take more than 10,000 events.
 */
export async function changesSince(
  events: AsyncIterable<StoredEvent>,
  keyOf: (event: StoredEvent) => string | null,
  isMoment: (event: StoredEvent) => boolean,
): Promise<Changes | null> {
  const found: Changes = { events: [], isReached: false };
  /** The keys whose events before the moment are still looked for. */
  const before = new Set<string>();
  let count = 0;
  for await (const event of events) {
    found.isReached ||= isMoment(event);
    if (found.isReached && before.size === 0) break;
    if ((count += 1) > EVENTS_MAX) return null;
    const key = keyOf(event);
    if (key === null || (found.isReached && !before.delete(key))) continue;
    if (!found.isReached) before.add(key);
    found.events.push(event);
  }
  return found;
}
