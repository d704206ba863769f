import { EventStoreDBClient, jsonEvent, NO_STREAM } from '@eventstore/db-client';
import { EventCatalogue } from '../src/eventsourcing/event-store/event-catalogue.ts';
import { defineEvent, type JsonObject } from '../src/eventsourcing/event-store/event-definition.ts';
import { EventStoreDbEventStore } from '../src/eventsourcing/event-store/eventstoredb/eventstoredb-event-store.ts';
import { compared, inTurn, portAppends, type Append } from './support/appending.ts';
import { credentialsOf, withDefaults } from '../src/kernel/config/eventstore-url.ts';

const writerCounts = [1, 16, 64];
const rounds = 16;
const sliceMs = 500;

/**
 * Measures appends per second through the port against the client's own plain append of the same event, on the server that EVENTSTORE_URL
 * names.
 */
export async function run(): Promise<object> {
  const url = process.env.EVENTSTORE_URL;
  if (!url) return { skipped: 'EVENTSTORE_URL names no server' };
  const store = new EventStoreDbEventStore(
    url,
    'bench',
    new EventCatalogue([defineEvent<JsonObject>()('DeploymentRequested', () => 'Asked for a deployment')]),
  );
  const client = EventStoreDBClient.connectionString(withDefaults(url));
  const figures = [];
  for (const writers of writerCounts)
    figures.push(await compared('bare', bareAppends(client, url, writers), portAppends(store, writers), { writers, rounds, sliceMs }));
  await store.close();
  await client.dispose();
  console.table(figures);
  return { unit: 'appends/s: median, 9th decile, median of the ratios of neighbouring slices', rounds, sliceMs, figures };
}

function bareAppends(client: EventStoreDBClient, url: string, writers: number): Append {
  // Any credentials make the client use its plain append.
  const credentials = credentialsOf(url) ?? { username: 'bench', password: 'bench' };
  return inTurn(writers, (stream, revision, { id, type, data, metadata }) =>
    client.appendToStream(`bare-${stream}`, jsonEvent({ id, type, data, metadata: { ...metadata, schema_version: 1 } }), {
      expectedRevision: revision < 0 ? NO_STREAM : BigInt(revision),
      credentials,
      requiresLeader: true,
    }),
  );
}
