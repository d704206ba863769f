import pg from 'pg';
import { openDatabase } from '../src/postgres/database/open-database.ts';
import { OutsidePostgres } from '../test/support/outside-postgres.ts';
import { EventCatalogue } from '../src/eventsourcing/event-store/event-catalogue.ts';
import { defineEvent, type JsonObject } from '../src/eventsourcing/event-store/event-definition.ts';
import { PostgresEventStore } from '../src/eventsourcing/event-store/postgres/postgres-event-store.ts';
import { compared, newEvent, portAppends, type Append } from './support/appending.ts';

const writerCounts = [1, 16, 64];
const rounds = 20;
const sliceMs = 250;
/**
 * Measures appends per second through the port against plain single-row INSERTs of the same event, each its own commit that is forced to
 * disk.
 */
export async function run(): Promise<object> {
  const server = await OutsidePostgres.start();
  try {
    return await measure(server.url);
  } finally {
    await server.stop();
  }
}

async function measure(url: string): Promise<object> {
  const catalogue = new EventCatalogue([defineEvent<JsonObject>()('DeploymentRequested', () => 'Asked for a deployment')]);
  const database = await openDatabase({ url });
  const store = new PostgresEventStore(database, catalogue);
  await database.query(`create table raw_event (position bigint generated always as identity primary key, stream text not null,
    version bigint not null, id uuid not null, type text not null, schema_version smallint not null, data json not null,
    metadata json not null, at timestamptz not null)`);
  const figures = [];
  for (const writers of writerCounts) {
    const raw = rawInserts(url, writers);
    figures.push(await compared('raw', raw.append, portAppends(store, writers), { writers, rounds, sliceMs }));
    await raw.close();
  }
  await store.close();
  await database.close();
  console.table(figures);
  return { unit: 'events/s: median, 9th decile, median of the ratios of neighbouring slices', rounds, sliceMs, figures };
}

function rawInserts(url: string, writers: number): { append: Append; close: () => Promise<void> } {
  const pool = new pg.Pool({ connectionString: url, max: writers });
  // A failed run stops the server under idle connections; only its own error is reported.
  pool.on('error', () => undefined);
  const text = `insert into raw_event (stream, version, id, type, schema_version, data, metadata, at) values ($1, $2, $3, $4, $5, $6, $7, now())`;
  const versions = Array.from({ length: writers }, () => 0);
  const append: Append = (writer) => {
    const { id, type, schemaVersion, data, metadata } = newEvent();
    const version = versions[writer] ?? 0;
    versions[writer] = version + 1;
    return pool.query({
      name: 'raw',
      text,
      values: [`agent-raw${writer}`, version, id, type, schemaVersion, JSON.stringify(data), JSON.stringify(metadata)],
    });
  };
  return { append, close: () => pool.end() };
}
