import { type DynamicModule, Module } from '@nestjs/common';
import { Config } from '../config/config.ts';
import { isDatabaseAway } from '../database/database-away.ts';
import { Database } from '../database/database.ts';
import { Aggregates } from './aggregates.ts';
import { AppendMetrics } from './append-metrics.ts';
import { EventCatalogue, type AnyEventDefinition } from './event-catalogue.ts';
import { EventStore, EventStoreUnavailable } from './event-store.ts';
import { EventWaits } from './following/event-waits.ts';
import { EventStoreDbEventStore } from './eventstoredb/eventstoredb-event-store.ts';
import { isAccessDenied } from './eventstoredb/faults.ts';
import { AccountPositions } from './following/account-positions.ts';
import { LogFollower } from './following/log-follower.ts';
import { claimLogPlace, assertLogNotShorter, type EventStorePlace } from './log-place.ts';
import { PostgresEventStore } from './postgres/postgres-event-store.ts';
import { Snapshots } from './states/snapshots.ts';
import { StreamStates } from './states/stream-states.ts';
import { Startup } from '../startup.ts';
import { RetentionMetrics } from './retention-metrics.ts';

/**
 * Provides the log (`EventStore`), its catalogue, `Aggregates`, `StreamStates`, `LogFollower`, `EventWaits` and `AccountPositions`
 * globally. Needs `Config`, `Clock`, `Startup` and `Database` to be provided globally.
 */
@Module({})
export class EventStoreModule {
  static forRoot({ definitions }: { definitions: readonly AnyEventDefinition[] }): DynamicModule {
    return {
      module: EventStoreModule,
      global: true,
      providers: [
        { provide: EventCatalogue, useFactory: () => new EventCatalogue(definitions) },
        { provide: EventStore, useFactory: openOwnLog, inject: [Config, Database, EventCatalogue, Startup] },
        Aggregates,
        AppendMetrics,
        StreamStates,
        Snapshots,
        LogFollower,
        EventWaits,
        AccountPositions,
        RetentionMetrics,
      ],
      exports: [EventCatalogue, EventStore, Aggregates, StreamStates, LogFollower, EventWaits, AccountPositions],
    };
  }
}

/** Waits for a store that is away. Throws if the configured store does not hold this database's log, or refuses the configured user. */
async function openOwnLog(config: Config, database: Database, catalogue: EventCatalogue, startup: Startup): Promise<EventStore> {
  try {
    await startup.until('database', isDatabaseAway, () => claimLogPlace(config, database));
    const store = openEventStore(config, database, catalogue);
    await startup.until('event_store', isStoreAway, () => assertLogNotShorter(store, database));
    return store;
  } catch (error) {
    if (!isRefusedUser(error)) throw error;
    throw new Error('the event store refuses the user: EVENTSTORE_URL must name one who may read the whole log, with the right password', {
      cause: error,
    });
  }
}

function isStoreAway(error: unknown): boolean {
  return (error instanceof EventStoreUnavailable && !isRefusedUser(error)) || isDatabaseAway(error);
}

function isRefusedUser(error: unknown): boolean {
  return error instanceof EventStoreUnavailable && isAccessDenied(error.cause);
}

/** Opens the store that is configured. It is closed together with the database. */
export function openEventStore(config: EventStorePlace, database: Database, catalogue: EventCatalogue): EventStore {
  const store =
    config.eventStore === 'eventstoredb'
      ? new EventStoreDbEventStore(config.eventStoreUrl ?? '', config.eventStorePrefix, catalogue)
      : new PostgresEventStore(database, catalogue);
  // Requests may append until the HTTP server is closed, which is after every earlier hook of Nest.
  database.beforeClose(() => store.close());
  return store;
}
