import { openDatabase } from '../../src/postgres/database/open-database.ts';
import { EventCatalogue } from '../../src/eventsourcing/event-store/event-catalogue.ts';
import { defineEvent, type JsonObject } from '../../src/eventsourcing/event-store/event-definition.ts';
import type { EventStore } from '../../src/eventsourcing/event-store/event-store.ts';
import { PostgresEventStore } from '../../src/eventsourcing/event-store/postgres/postgres-event-store.ts';
import { withClient } from './bare-relay.ts';

/** Creates a database with that name on the server of the URL, with an event store that nothing else uses. */
export async function emptyStore(url: string, name: string): Promise<{ store: EventStore; close: () => Promise<void> }> {
  await withClient(url, (client) => client.query(`create database ${name}`));
  const database = await openDatabase({ url: url.replace(/\/[^/]*$/, `/${name}`) });
  const store = new PostgresEventStore(database, new EventCatalogue([defineEvent<JsonObject>()('DeploymentRequested', () => 'Asked')]));
  const close = async () => {
    await store.close();
    await database.close();
  };
  return { store, close };
}
