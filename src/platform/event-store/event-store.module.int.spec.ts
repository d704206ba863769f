import { chmod, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Test } from '@nestjs/testing';
import { collect, contractCatalogue } from '../../../test/support/event-store-contract.ts';
import { freshDatabase } from '../../../test/support/postgres.ts';
import { removeDataDir } from '../../../test/support/shared-postgres.ts';
import { ConfigModule } from '../../config.module.ts';
import { readConfig, type Environment } from '../../config.ts';
import { DatabaseModule } from '../database/database.module.ts';
import { Database } from '../database/database.ts';
import { systemContext } from '../http/caller.ts';
import { Aggregates } from './aggregates.ts';
import type { Decider } from './event-definition.ts';
import { EventStoreModule } from './event-store.module.ts';
import { EventStore, EventStoreUnavailable } from './event-store.ts';

type Happened = { type: 'Happened'; data: { n: number } };
const list: Decider<number[], number, Happened> = {
  initialState: () => [],
  decide: (n) => [{ type: 'Happened', data: { n } }],
  evolve: (state, { data }) => [...state, data.n],
};

function assembled(environment: Environment, allowUnsafe: boolean) {
  const imports = [
    ConfigModule.forRoot(readConfig(environment)),
    DatabaseModule.forRoot({ entities: [], allowUnsafe }),
    EventStoreModule.forRoot({ definitions: contractCatalogue.definitions }),
  ];
  return Test.createTestingModule({ imports }).compile();
}

describe('The service with its event store', () => {
  it('starts PostgreSQL from the npm packages where no database is given, and finds its events again', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'mooring-module-'));
    await chmod(dataDir, 0o711);
    for (const known of [[], [1]]) {
      const app = await assembled({ MOORING_DATA_DIR: dataDir }, false);
      await app.init();
      expect((await app.get(Aggregates).load('agent-1', list)).state).toEqual(known);
      await app.get(Aggregates).execute('agent-1', list, known.length + 1, systemContext('test', null));
      await app.close();
    }
    await removeDataDir(dataDir);
  });

  it('closes the event store before the database', async () => {
    const place = await freshDatabase();
    const app = await assembled({ DATABASE_URL: place.url }, true);
    await app.init();
    const store = app.get(EventStore);
    const subscription = store.subscribe(await store.head('core'), { eventClass: 'core' }, () => Promise.resolve());
    await app.get(Aggregates).execute('agent-1', list, 1, systemContext('test', null));
    expect(await collect(store.readStream('agent-1'))).toHaveLength(1);
    await app.close();
    await subscription.ended;
    await expect(store.ping()).rejects.toBeInstanceOf(EventStoreUnavailable);
    await expect(app.get(Database).query('select 1')).rejects.toThrow(/end|closed/);
    await place.drop();
  });

  it('says at start that there is no adapter for EventStoreDB', async () => {
    const place = await freshDatabase();
    const environment = { DATABASE_URL: place.url, EVENT_STORE: 'eventstoredb', EVENTSTORE_URL: 'esdb://127.0.0.1:2113' };
    await expect(assembled(environment, true)).rejects.toThrow(/no adapter for EventStoreDB/);
    await place.drop();
  });
});
