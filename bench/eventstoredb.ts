import { EventStoreDBClient, jsonEvent, NO_STREAM } from '@eventstore/db-client';
import { EventCatalogue } from '../src/platform/event-store/catalogue.ts';
import { defineEvent, type JsonObject } from '../src/platform/event-store/event-definition.ts';
import { EventStoreDbEventStore } from '../src/platform/event-store/eventstoredb/eventstoredb-event-store.ts';
import { inTurn, quantile, slice, type Append } from './support/appending.ts';
import { credentialsOf, withDefaults } from '../src/platform/event-store/eventstore-url.ts';

const writerCounts = [1, 16, 64];
const rounds = 16;
const sliceMs = 500;

/** Appends per second through the port against the client's own plain append of the same event, on the server that EVENTSTORE_URL names. */
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
  for (const writers of writerCounts) {
    const turns = [['bare', bareAppends(client, url, writers)] as const, ['port', portAppends(store, writers)] as const];
    const rates = { bare: [] as number[], port: [] as number[] };
    for (const [, append] of turns) await slice(append, writers, sliceMs);
    for (let round = 0; round < rounds; round += 1)
      for (const [name, append] of round % 2 ? turns : turns.toReversed()) rates[name].push(await slice(append, writers, sliceMs));
    // Neighbouring slices see the same machine, whatever else it does: their ratio is steadier than that of the medians.
    const ratios = rates.port.map((rate, round) => rate / (rates.bare[round] ?? NaN));
    figures.push({
      writers,
      bare: Math.round(quantile(rates.bare, 0.5)),
      port: Math.round(quantile(rates.port, 0.5)),
      ratio: Number(quantile(ratios, 0.5).toFixed(2)),
      bareAtBest: Math.round(quantile(rates.bare, 0.9)),
      portAtBest: Math.round(quantile(rates.port, 0.9)),
    });
  }
  await store.close();
  await client.dispose();
  console.table(figures);
  return { unit: 'appends/s: median, 9th decile, median of the ratios of neighbouring slices', rounds, sliceMs, figures };
}

function bareAppends(client: EventStoreDBClient, url: string, writers: number): Append {
  // Any pair makes the client take its plain append.
  const credentials = credentialsOf(url) ?? { username: 'bench', password: 'bench' };
  return inTurn(writers, (stream, revision, { id, type, data, metadata }) =>
    client.appendToStream(`bare-${stream}`, jsonEvent({ id, type, data, metadata: { ...metadata, schema_version: 1 } }), {
      expectedRevision: revision < 0 ? NO_STREAM : BigInt(revision),
      credentials,
      requiresLeader: true,
    }),
  );
}

function portAppends(store: EventStoreDbEventStore, writers: number): Append {
  return inTurn(writers, (stream, revision, event) => store.append(stream, revision < 0 ? 'no_stream' : revision, [event]));
}
