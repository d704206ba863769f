import { Injectable, Module, type OnModuleInit } from '@nestjs/common';
import { Test } from '@nestjs/testing';

import { sampleEvent } from '../../../test/support/sample-event.ts';
import { appendTo, eventually, everything } from '../../../test/support/log.ts';
import { eventStoreEnvironment } from '../../../test/support/eventstoredb/location.ts';
import { freshDatabase, type TestDatabase } from '../../../test/support/postgres.ts';
import { ConfigModule } from '../../kernel/config/config.module.ts';
import { readConfig } from '../../kernel/config/read-config.ts';
import { CryptoModule } from '../../crypto/crypto.module.ts';
import { Keyring } from '../../crypto/keyring.ts';
import { Database } from '../../postgres/database/database.ts';
import { DatabaseModule } from '../../postgres/database.module.ts';
import { defineEvent, type JsonObject } from '../event-store/event-definition.ts';
import { EventStoreModule } from '../event-store.module.ts';
import { EventStore, idOf } from '../event-store/event-store.ts';
import { EventWaits } from '../log/event-waits.ts';
import { Metrics } from '../../kernel/observability/metrics.ts';
import { ReadModels } from '../projections/projection.ts';
import { LeasesModule } from '../../postgres/leases/leases.module.ts';
import { ProjectionsModule } from '../projections/projections.module.ts';
import { Projections } from '../projections/projections.ts';
import { Sagas, type Saga } from './saga.ts';
import { SagasModule } from './sagas.module.ts';

@Injectable()
class Harbour implements OnModuleInit, Saga {
  readonly name = 'harbour';
  readonly filter = everything;
  readonly concurrency = 1;
  readonly seen: string[] = [];

  constructor(
    private readonly projections: Projections,
    private readonly sagas: Sagas,
  ) {}

  onModuleInit(): void {
    this.sagas.register(this);
    this.projections.register({
      name: 'boats',
      version: 1,
      filter: everything,
      table: { key: 'name', columns: { name: 'text' }, indexes: {} },
      keys: () => [],
      project: (event, rows) => rows.set(idOf(event.stream), { name: idOf(event.stream) }),
    });
  }

  keyOf = (event: { stream: string }) => idOf(event.stream);
  reconcile = async (key: string) => (this.seen.push(key), null);
  resync = async () => [];
}

@Module({ providers: [Harbour] })
class HarbourModule {}

describe('the modules below the features, in an application', () => {
  let test: TestDatabase;

  beforeAll(async () => {
    test = await freshDatabase();
  });
  afterAll(() => test.drop());

  it('start with it, provide features with what they inject, export metrics, and stop before the database does', async () => {
    const config = readConfig({ DATABASE_URL: test.url, MOORING_MASTER_KEY: 'ab'.repeat(32), ...eventStoreEnvironment(test.url) });
    @Module({ providers: [Metrics], exports: [Metrics] })
    class MetricsModule {}
    const built = await Test.createTestingModule({
      imports: [
        ConfigModule.forRoot(config),
        DatabaseModule.forRoot({ allowUnsafe: true }),
        EventStoreModule.forRoot({ definitions: [defineEvent<JsonObject>()('BoatArrived', () => 'Arrived')] }),
        { module: MetricsModule, global: true },
        CryptoModule,
        LeasesModule,
        ProjectionsModule,
        SagasModule,
        HarbourModule,
      ],
    }).compile();
    const application = await built.init();

    const store = application.get(EventStore);
    using watch = application.get(EventWaits).watch('boat-Ark');
    const { position } = await appendTo(store, 'boat-Ark', sampleEvent('BoatArrived'));
    await application.get(ReadModels).waitFor('boats', position);
    expect(await application.get(Database).query('select * from boats_v1')).toEqual([{ name: 'Ark' }]);
    expect(await watch.next(5_000)).toMatchObject({ position });
    application.get(Sagas).wake('harbour', 'Ark');
    await eventually(
      () => (application.get(Sagas).wake('harbour', 'Ark'), application.get(Harbour, { strict: false }).seen.includes('Ark')),
    );
    const keyring = application.get(Keyring);
    expect(await keyring.open('Ark', 'c', await keyring.seal('Ark', 'c', 'cargo'))).toBe('cargo');
    const metrics = await application.get(Metrics).text();
    expect(metrics).toContain('mooring_projection_failed{name="boats"} 0');
    expect(metrics).toContain('mooring_append_duration_seconds_count{class="core"} 1');
    expect(metrics).toContain('mooring_saga_queued_signals{saga="harbour"} 0');
    expect(metrics).toMatch(/mooring_database_connections_max\{pool="\w+"\} \d/);
    // Only a log in PostgreSQL has connections of its own for appends.
    expect(metrics.includes('mooring_database_connections_max{pool="appends"} 2')).toBe(process.env.EVENT_STORE !== 'eventstoredb');
    await application.close();
  });
});
