import { Client } from 'pg';

import { ProjectionProcess } from '../../../test/support/sample-projection.ts';
import { sampleEvent } from '../../../test/support/sample-event.ts';
import { appendTo, eventually } from '../../../test/support/log.ts';
import { freshDatabase, type TestDatabase } from '../../../test/support/postgres.ts';

/**
 * A database that ends all connections, loses what was written to the read model since `keep`, and then refuses connections until it has
 * recovered.
 */
class CrashingDatabase {
  private constructor(
    private readonly inside: Client,
    private readonly beside: Client,
    private readonly name: string,
  ) {}

  static async open(url: string): Promise<CrashingDatabase> {
    const [inside, beside] = [new Client({ connectionString: url }), new Client({ connectionString: process.env.MOORING_TEST_POSTGRES })];
    await Promise.all([inside.connect(), beside.connect()]);
    return new CrashingDatabase(inside, beside, new URL(url).pathname.slice(1));
  }

  async close(): Promise<void> {
    await Promise.all([this.inside.end(), this.beside.end()]);
  }

  async cargo(): Promise<number[]> {
    const { rows } = await this.inside.query<{ cargo: number }>('select cargo::int from boats_v1');
    return rows.map(({ cargo }) => cargo);
  }

  async keep(): Promise<void> {
    await this.inside.query('create table kept_rows as table boats_v1');
    await this.inside.query('create table kept_checkpoints as table projection_checkpoints');
  }

  async crash(): Promise<void> {
    await this.beside.query(`alter database "${this.name}" with allow_connections false`);
    const others = `from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`;
    await eventually(
      async () => (await this.inside.query(`select pg_terminate_backend(pid) ${others}`)).rowCount === 0,
      'the end of all connections',
    );
    await this.inside.query(`
      begin;
      delete from boats_v1;
      insert into boats_v1 table kept_rows;
      update projection_checkpoints c set position = k.position from kept_checkpoints k where k.table_name = c.table_name;
      commit`);
  }

  async recover(): Promise<void> {
    await this.beside.query(`alter database "${this.name}" with allow_connections true`);
  }
}

describe('read models on a database that crashes', () => {
  let test: TestDatabase;
  let database: CrashingDatabase;
  const replicas: ProjectionProcess[] = [];

  const start = async (): Promise<ProjectionProcess> => {
    const replica = await ProjectionProcess.open(test.url);
    replicas.push(replica);
    return replica;
  };

  beforeEach(async () => {
    test = await freshDatabase();
    database = await CrashingDatabase.open(test.url);
  });

  afterEach(async () => {
    await database.recover();
    for (const replica of replicas.splice(0)) await replica.close();
    await database.close();
    await test.drop();
  });

  it('are read only once they contain again what the crash took back, on the replica that wrote it and on another', async () => {
    const both = [await start(), await start()] as const;
    const { store } = both[0].log;
    const reached = (position: string) => Promise.all(both.map(({ projections }) => projections.waitFor('boats', position)));
    const arrived = await appendTo(store, 'boat-Ark', sampleEvent('BoatArrived'));
    await reached(arrived.position);
    await database.keep();
    const { position } = await appendTo(store, 'boat-Ark', sampleEvent('BoatLoaded', { tons: 10 }));
    await reached(position);
    expect(await database.cargo()).toEqual([10]);
    const sessions = both.map(({ leases }) => leases.sessionId);
    await database.crash();
    expect(await database.cargo()).toEqual([0]);
    await eventually(() => both.every(({ leases }, replica) => leases.sessionId !== sessions[replica]), 'the end of the sessions');
    const reads = both.map(async ({ projections }) => {
      await projections.waitFor('boats', position, 60_000);
      return database.cargo();
    });
    await database.recover();
    expect(await Promise.all(reads)).toEqual([[10], [10]]);
  });

  it('are not read at a position that was learned while no session could reveal a crash', async () => {
    const { log, leases, projections } = await start();
    const { position } = await appendTo(log.store, 'boat-Ark', sampleEvent('BoatArrived'));
    await projections.waitFor('boats', position);
    const session = jest.spyOn(leases, 'sessionId', 'get').mockReturnValue(null);
    await projections.status();
    await expect(projections.waitFor('boats', position, 100)).rejects.toMatchObject({ code: 'read_model_behind' });
    session.mockRestore();
    await projections.waitFor('boats', position);
  });
});
