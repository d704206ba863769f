import { chmod, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Test } from '@nestjs/testing';
import { collect, contractCatalogue } from '../../test/support/event-store-contract.ts';
import { eventStoreDbLocation } from '../../test/support/eventstoredb/location.ts';
import { freshDatabase } from '../../test/support/postgres.ts';
import { removeDataDir } from '../../test/support/data-dir.ts';
import { ConfigModule } from '../kernel/config/config.module.ts';
import { readConfig } from '../kernel/config/read-config.ts';
import type { Environment } from '../kernel/config/setting-reader.ts';
import { DatabaseModule } from '../postgres/database.module.ts';
import { Database } from '../postgres/database/database.ts';
import { Startup } from '../kernel/startup.ts';
import { systemContext } from '../kernel/context/command-context.ts';
import { Aggregates } from './aggregates/aggregates.ts';
import type { Decider } from './event-store/event-definition.ts';
import { EventStoreModule } from './event-store.module.ts';
import { EventStore, EventStoreUnavailable } from './event-store/event-store.ts';

type Happened = { type: 'Happened'; data: { n: number } };
const list: Decider<number[], number, Happened> = {
  initialState: () => [],
  decide: (n) => [{ type: 'Happened', data: { n } }],
  evolve: (state, { data }) => [...state, data.n],
};

/** Assembles a service; closes what a start that fails has opened, as the service does. */
async function assembled(environment: Environment, allowUnsafe: boolean) {
  const startup = new Startup();
  const imports = [
    ConfigModule.forRoot(readConfig(environment), startup),
    DatabaseModule.forRoot({ allowUnsafe }),
    EventStoreModule.forRoot({ definitions: contractCatalogue.definitions }),
  ];
  try {
    return await Test.createTestingModule({ imports }).compile();
  } catch (error) {
    await startup.failed();
    throw error;
  }
}

describe('The service with its event store', () => {
  it('starts PostgreSQL from the npm packages if no database is configured, and finds its events again', async () => {
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

  it('stores its events in EventStoreDB if that is configured', async () => {
    const place = await freshDatabase();
    const log = await eventStoreDbLocation();
    const environment = {
      DATABASE_URL: place.url,
      EVENT_STORE: 'eventstoredb',
      EVENTSTORE_URL: log.url,
      EVENTSTORE_PREFIX: log.prefix,
    };
    for (const known of [[], [1]]) {
      const app = await assembled(environment, true);
      await app.init();
      await app.get(EventStore).ping();
      expect((await app.get(Aggregates).load('agent-1', list)).state).toEqual(known);
      await app.get(Aggregates).execute('agent-1', list, known.length + 1, systemContext('test', null));
      await app.close();
      await expect(app.get(EventStore).ping()).rejects.toBeInstanceOf(EventStoreUnavailable);
    }
    // Without the setting, the service would write into another log.
    await expect(assembled({ DATABASE_URL: place.url }, true)).rejects.toThrow(
      `The log of this database is in EventStoreDB under the prefix ${log.prefix}, and the configuration says PostgreSQL: ` +
        `set EVENT_STORE=eventstoredb and EVENTSTORE_PREFIX=${log.prefix}, or move the log with npm run migrate-store.`,
    );
    const { EVENTSTORE_PREFIX: _, ...withoutPrefix } = environment;
    await expect(assembled(withoutPrefix, true)).rejects.toThrow(/says EventStoreDB without a prefix/);
    await log.close();
    await place.drop();
  });

  it('does not start on a log that ends before a position that its read models have reached', async () => {
    const place = await freshDatabase();
    const app = await assembled({ DATABASE_URL: place.url }, true);
    await app.init();
    await app.get(Aggregates).execute('agent-1', list, 1, systemContext('test', null));
    const head = await app.get(EventStore).head('core');
    const follow = (position: string) =>
      app
        .get(Database)
        .query(
          `insert into projection_checkpoints (table_name, position, epoch) values ('boats', $1, 1) on conflict (table_name) do update set position = $1`,
          [position],
        );
    await follow(head);
    await (await assembled({ DATABASE_URL: place.url }, true)).close();
    await follow(String(Number(head) + 1).padStart(head.length, '0'));
    await app.close();
    await expect(assembled({ DATABASE_URL: place.url }, true)).rejects.toThrow(/it is another log, or an older copy/);
    await place.drop();
  });

  it.each([
    ['http://127.0.0.1:2113', 'must be an address like'],
    ['esdb://me:hushhush@127.0.0.1:2113?tls=no', 'has no good value for tls'],
    ['esdb://me:hushhush@127.0.0.1:2113?tlsVerifyCert=false', 'has a setting'],
    ['esdb://me:hushhush@[::1]:2113', 'must name its hosts'],
    ['esdb+discover://me:hushhush@a:2113,b:2113', 'takes one host'],
    ['esdb://127.0.0.1:2113', 'must name a user and a password'],
  ])('refuses %s at start, without quoting it', (url, why) => {
    const start = () => readConfig({ EVENT_STORE: 'eventstoredb', EVENTSTORE_URL: url });
    expect(start).toThrow(`EVENTSTORE_URL ${why}`);
    expect(start).not.toThrow('hushhush');
  });

  it('accepts the connection strings of single servers and of clusters', () => {
    for (const url of [
      'esdb://localhost:2113?tls=false',
      'esdb://me:secret@a:2113,b:2113,c:2113?tlsCAFile=/etc/ca.crt&nodePreference=leader',
      'esdb+discover://me:secret@nodes.example.com',
    ])
      expect(readConfig({ EVENT_STORE: 'eventstoredb', EVENTSTORE_URL: url }).eventStoreUrl).toBe(url);
  });
});
