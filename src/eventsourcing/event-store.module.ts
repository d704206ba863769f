import { type DynamicModule, Module } from '@nestjs/common';
import { Config } from '../kernel/config/config.ts';
import { isDatabaseUnavailable } from '../postgres/database/database-unavailable.ts';
import { Database } from '../postgres/database/database.ts';
import { Aggregates } from './aggregates/aggregates.ts';
import { CachedAggregates } from './aggregates/cached-aggregates.ts';
import { AppendMetrics } from './event-store/append-metrics.ts';
import { EventCatalogue, type AnyEventDefinition } from './event-store/event-catalogue.ts';
import { EventStore, EventStoreUnavailable } from './event-store/event-store.ts';
import { EventWaits } from './log/event-waits.ts';
import { isAccessDenied } from './event-store/eventstoredb/faults.ts';
import { AccountPositions } from './log/account-positions.ts';
import { LogFollower } from './log/log-follower.ts';
import { claimLogLocation, assertLogNotShorter, type EventStoreLocation } from './event-store/log-location.ts';
import { PostgresEventStore } from './event-store/postgres/postgres-event-store.ts';
import { Snapshots } from './aggregates/snapshots.ts';
import { StreamStates } from './aggregates/stream-states.ts';
import { Startup } from '../kernel/startup.ts';
import { RetentionMetrics } from './event-store/retention-metrics.ts';

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
        { provide: Aggregates, useClass: CachedAggregates },
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

/**
 * Waits for a store that is unavailable. Throws if the configured store does not hold this database's log, or refuses the configured user.
 */
async function openOwnLog(config: Config, database: Database, catalogue: EventCatalogue, startup: Startup): Promise<EventStore> {
  try {
    await startup.until('database', isDatabaseUnavailable, () => claimLogLocation(config, database));
    const store = await openEventStore(config, database, catalogue);
    await startup.until('event_store', isStoreUnavailable, () => assertLogNotShorter(store, database));
    return store;
  } catch (error) {
    if (!isRefusedUser(error)) throw error;
    throw new Error('the event store refuses the user: EVENTSTORE_URL must name one who may read the whole log, with the right password', {
      cause: error,
    });
  }
}

function isStoreUnavailable(error: unknown): boolean {
  return (error instanceof EventStoreUnavailable && !isRefusedUser(error)) || isDatabaseUnavailable(error);
}

function isRefusedUser(error: unknown): boolean {
  return error instanceof EventStoreUnavailable && isAccessDenied(error.cause);
}

/** Opens the configured store, which is closed together with the database. */
export async function openEventStore(config: EventStoreLocation, database: Database, catalogue: EventCatalogue): Promise<EventStore> {
  const store =
    config.eventStore === 'eventstoredb' ? await openEventStoreDb(config, catalogue) : new PostgresEventStore(database, catalogue);
  // Requests may append until the HTTP server has closed, which happens after every earlier hook of Nest.
  database.beforeClose(() => store.close());
  return store;
}

/** Imports the client of EventStoreDB, which takes 10 MB of memory, only if it is used. */
async function openEventStoreDb(config: EventStoreLocation, catalogue: EventCatalogue): Promise<EventStore> {
  const { EventStoreDbEventStore } = await import('./event-store/eventstoredb/eventstoredb-event-store.ts');
  return new EventStoreDbEventStore(config.eventStoreUrl ?? '', config.eventStorePrefix, catalogue);
}
