import type pg from 'pg';

import type { EventStore, Position } from '../eventsourcing/event-store/event-store.ts';

/** The number of events that are looked up at once. */
const AT_ONCE = 1_000;

/**
 * Returns the target's positions of the events that subscriptions have reached or still have to deliver, by their positions in the source.
 */
export async function movedPositions(owner: pg.Client, source: EventStore, target: EventStore): Promise<Map<Position, Position>> {
  const { rows } = await owner.query<{ position: Position }>(
    `select position from subscription_cursors union select position from event_deliveries where status = 'pending'`,
  );
  const moved = new Map<Position, Position>();
  for (let at = 0; at < rows.length; at += AT_ONCE) {
    const positions = rows.slice(at, at + AT_ONCE).map(({ position }) => position);
    for await (const { stream, revision, position } of source.readAt(positions))
      for await (const copy of target.readStream(stream, { from: revision, limit: 1 })) moved.set(position, copy.position);
  }
  return moved;
}

/**
 * Sets the subscriptions' cursors and pending deliveries to the new positions. Ended subscriptions had only old positions, and their rows
 * are deleted.
 */
export async function moveCursors(owner: pg.Client, moved: ReadonlyMap<Position, Position>): Promise<void> {
  await owner.query(`delete from event_deliveries where status <> 'pending'`);
  for (const table of ['subscription_cursors', 'event_deliveries'])
    await owner.query(
      `update ${table} set position = moved.new from unnest($1::text[], $2::text[]) as moved (old, new) where position = moved.old`,
      [[...moved.keys()], [...moved.values()]],
    );
}
