import type { Config } from '../../kernel/config/config.ts';
import type { Database } from '../../postgres/database/database.ts';
import { Installation } from '../../postgres/database/installation.ts';
import type { EventStore, Position } from './event-store.ts';

export type EventStoreLocation = Pick<Config, 'eventStore' | 'eventStoreUrl' | 'eventStorePrefix'>;

/**
 * Returns the store and the prefix that hold the log, as the database records them. The store's addresses are not included, since they may
 * change.
 */
export function logLocation({ eventStore, eventStorePrefix }: EventStoreLocation): string {
  return eventStore === 'postgres' ? 'postgres' : `eventstoredb ${eventStorePrefix ?? ''}`.trimEnd();
}

/**
 * Throws if the log of this database is in another store than the configured one, because events written there would be missing. The first
 * start decides which store holds the log; later only `migrate-store` changes it.
 */
export async function claimLogLocation(configured: EventStoreLocation, database: Database): Promise<void> {
  const wanted = logLocation(configured);
  const standing = await new Installation(database).getOrSet('log_place', wanted);
  if (standing === wanted) return;
  throw new Error(
    `The log of this database is in ${describeLocation(standing)}, and the configuration says ${describeLocation(wanted)}: ` +
      `set ${settingsOf(standing)}, or move the log with npm run migrate-store.`,
  );
}

/** Throws if the log ends before a position that the read models have reached: then it is another log, or an older copy. */
export async function assertLogNotShorter(store: EventStore, database: Database): Promise<void> {
  const [row] = await database.query<{ position: Position | null }>('select max(position) as position from projection_checkpoints');
  const followed = row?.position ?? null;
  const end = await store.end();
  if (followed === null || followed <= end) return;
  throw new Error(
    `The read models have followed the log up to ${followed}, and this log ends at ${end}: it is another log, or an older copy. ` +
      'Set EVENT_STORE, EVENTSTORE_URL and EVENTSTORE_PREFIX to the store that holds the log; where an older copy was put in place on purpose, ' +
      'see "A log that is older than its read models" in docs/guides/eventstoredb.md.',
  );
}

/** Returns a description of the place for people. */
export function describeLocation(place: string): string {
  const [store, prefix] = place.split(' ');
  if (store === 'postgres') return 'PostgreSQL';
  return prefix === undefined ? 'EventStoreDB without a prefix' : `EventStoreDB under the prefix ${prefix}`;
}

function settingsOf(place: string): string {
  const [store, prefix] = place.split(' ');
  if (store === 'postgres') return 'EVENT_STORE=postgres';
  return `EVENT_STORE=eventstoredb${prefix === undefined ? ' and no EVENTSTORE_PREFIX' : ` and EVENTSTORE_PREFIX=${prefix}`}`;
}
