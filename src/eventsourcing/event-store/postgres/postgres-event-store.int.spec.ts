import pg from 'pg';
import { contractCatalogue, newEvent, type ContractSubject } from '../../../../test/support/event-store-contract.ts';
import { freshDatabase } from '../../../../test/support/postgres.ts';
import type { Database } from '../../../postgres/database/database.ts';
import { openDatabase } from '../../../postgres/database/open-database.ts';
import { eventStoreContract } from '../../../../test/contracts/event-store.contract.ts';
import { PostgresEventStore } from './postgres-event-store.ts';

async function subject(): Promise<ContractSubject> {
  const place = await freshDatabase();
  const opened: Database[] = [];
  const open = async () => {
    const database = await openDatabase({ url: place.url, allowUnsafe: true });
    opened.push(database);
    const store = new PostgresEventStore(database, contractCatalogue);
    database.beforeClose(() => store.close());
    return store;
  };
  const store = await open();
  const slow = new pg.Pool({ connectionString: place.url, max: 4 });
  return {
    store,
    another: open,
    removeExpired: async () => void (await store.trim()),
    async appendSlowly(stream, revision, milliseconds) {
      const { id, type, schemaVersion, data, metadata } = newEvent();
      const client = await slow.connect();
      await client.query('begin');
      const event = { o: 1, i: 0, s: stream, e: revision, k: 1, id, t: type, v: schemaVersion, d: data, m: metadata };
      await client.query('select es_append($1)', [JSON.stringify([event])]);
      await client.query('select pg_sleep($1)', [milliseconds / 1000]);
      await client.query('commit');
      client.release();
    },
    async close() {
      await slow.end();
      for (const database of opened) await database.close();
      await place.drop();
    },
  };
}

eventStoreContract('PostgreSQL', subject);
