import { tmpdir } from 'node:os';

import { Client } from 'pg';

import { readConfig } from '../../src/kernel/config/read-config.ts';
import { Clock } from '../../src/kernel/clock.ts';
import type { Database } from '../../src/postgres/database/database.ts';
import { openDatabase } from '../../src/postgres/database/open-database.ts';
import { Aggregates } from '../../src/eventsourcing/aggregates/aggregates.ts';
import { CachedAggregates } from '../../src/eventsourcing/aggregates/cached-aggregates.ts';
import { type AnyEventDefinition, EventCatalogue } from '../../src/eventsourcing/event-store/event-catalogue.ts';
import { defineEvent, type JsonObject } from '../../src/eventsourcing/event-store/event-definition.ts';
import type { EventStore, NewEvent } from '../../src/eventsourcing/event-store/event-store.ts';
import { EventStoreDbEventStore } from '../../src/eventsourcing/event-store/eventstoredb/eventstoredb-event-store.ts';
import { LogFollower } from '../../src/eventsourcing/log/log-follower.ts';
import { PostgresEventStore } from '../../src/eventsourcing/event-store/postgres/postgres-event-store.ts';
import { Snapshots } from '../../src/eventsourcing/aggregates/snapshots.ts';
import { StreamStates } from '../../src/eventsourcing/aggregates/stream-states.ts';
import { rebuildEvents } from '../../src/eventsourcing/projections/rebuild/rebuild.events.ts';
import { until } from './until.ts';
import { eventStoreEnvironment } from './eventstoredb/location.ts';
import { LogPasses } from '../../src/eventsourcing/projections/rebuild/log-pass.ts';
import { Intervals } from '../../src/kernel/config/intervals.ts';

/** The events of a harbour, for tests of code that reads a log. */
const harbour = ['BoatArrived', 'BoatLoaded', 'BoatLeft', 'TideTurned'].map((type) => defineEvent<JsonObject>()(type, () => type));

export const everything = { eventClass: 'core' } as const;

/** One process's connections to a database and its event store. */
export interface OpenedLog {
  database: Database;
  store: EventStore;
  aggregates: Aggregates;
  catalogue: EventCatalogue;
  close(): Promise<void>;
}

/** Opens the log. `newer` are events that only a newer program knows. */
export async function openLog(url: string, newer: readonly AnyEventDefinition[] = []): Promise<OpenedLog> {
  const database = await openDatabase({ url, allowUnsafe: true });
  const catalogue = new EventCatalogue([...harbour, ...Object.values(rebuildEvents), ...newer]);
  const store = openStore(database, url, catalogue);
  const aggregates = openAggregates(database, store, catalogue).aggregates;
  const close = async () => {
    await store.close();
    await database.close();
  };
  return { database, store, aggregates, catalogue, close };
}

/** Opens the aggregates of one process. Its follower of the log runs only after it is started. */
export function openAggregates(database: Database, store: EventStore, catalogue: EventCatalogue, follower = new LogFollower(store)) {
  const snapshots = new Snapshots(database);
  const states = new StreamStates(store, follower, snapshots, readConfig({ MOORING_DATA_DIR: tmpdir() }));
  return { aggregates: new CachedAggregates(store, catalogue, new Clock(), states, snapshots), states, snapshots, follower };
}

/** Returns the passes over the log by which read models are rebuilt. */
export function openPasses(store: EventStore, { foldGatherMs } = new Intervals()): LogPasses {
  return new LogPasses(store, { memoryBytes: 48 * 1_048_576, directory: tmpdir() }, foldGatherMs);
}

/** Opens the log that belongs to the database at the address: in that database, or in the store that the tests are configured to use. */
export function openStore(database: Database, url: string, catalogue: EventCatalogue): EventStore {
  const elsewhere = eventStoreEnvironment(url);
  return elsewhere === null
    ? new PostgresEventStore(database, catalogue)
    : new EventStoreDbEventStore(elsewhere.EVENTSTORE_URL, elsewhere.EVENTSTORE_PREFIX, catalogue);
}

/** Appends to the current end of a stream. */
export async function appendTo(store: EventStore, stream: string, ...events: NewEvent[]) {
  for await (const last of store.readStream(stream, { backwards: true, limit: 1 })) return store.append(stream, last.revision, events);
  return store.append(stream, 'no_stream', events);
}

/** Waits until the condition holds, and checks it every few milliseconds. */
export function eventually<T>(look: () => Promise<T | undefined | false> | T | undefined | false, what = 'the condition'): Promise<T> {
  const found = async () => {
    const seen = await look();
    return seen === false ? undefined : seen;
  };
  return until(what, found, { everyMs: 5 });
}

/** Runs one statement as the operator of the server, whose role has more privileges than the service's. */
export async function operate(url: string, statement: string, values: unknown[] = []): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(statement, values)).rows;
  } finally {
    await client.end();
  }
}
