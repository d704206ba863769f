import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { emptyDatabase, type TestDatabase } from '../../../test/support/postgres.ts';
import { migrations } from '../migrations/index.ts';
import type { Database } from './database.ts';
import { openDatabase } from './open-database.ts';
import { until } from '../../../test/support/until.ts';

describe('The database', () => {
  let place: TestDatabase;
  let database: Database;

  beforeAll(async () => {
    place = await emptyDatabase();
    database = await openDatabase({ url: place.url, allowUnsafe: true });
  });

  afterAll(async () => {
    await database.close();
    await place.drop();
  });

  const append = (stream: string, expected = -1) =>
    database.query(`select es_append($1) as answer`, [
      JSON.stringify([{ o: 1, i: 0, s: stream, e: expected, k: 1, id: randomUUID(), t: 'Happened', v: 1, d: {}, m: {} }]),
    ]);

  it('refuses a server that would lose acknowledged writes', async () => {
    await expect(openDatabase({ url: place.url })).rejects.toThrow(/would lose acknowledged writes.*fsync/);
  });

  it('reveals no password if the address is malformed', async () => {
    await expect(openDatabase({ url: 'postgres://user:hunter2@:::/' })).rejects.toThrow(/^DATABASE_URL is not a valid address$/);
  });

  it('works as the application role, which can append but never change an event', async () => {
    expect(await database.query('select current_user as name')).toEqual([{ name: 'mooring_app' }]);
    expect(await append('agent-1')).toMatchObject([{ answer: { before: 0, outcomes: null } }]);
    for (const statement of [
      `update es_event set type = 'Other'`,
      'delete from es_event',
      'truncate es_event',
      `insert into es_event select position + 1, stream, version + 1, id, type, schema_version, data, metadata, size, at from es_event`,
      `update es_stream_meta set closed_at = null`,
      'select * from mooring_migration',
    ])
      await expect(database.query(statement)).rejects.toMatchObject({ code: '42501' });
    expect(await database.query('select count(*)::int as n from es_event')).toEqual([{ n: 1 }]);
  });

  it('protects events from changes even by the owner', async () => {
    await append('agent-2');
    const owner = new pg.Client({ connectionString: place.url });
    await owner.connect();
    for (const statement of [`update es_event set type = 'Other'`, 'delete from es_event', 'truncate es_event', 'truncate es_log_event'])
      await expect(owner.query(statement)).rejects.toThrow(/events are never changed/);
    await owner.end();
  });

  it('allows read models to be created, changed and dropped', async () => {
    await database.query('create table reading (id text primary key)');
    await database.query(`insert into reading values ('a')`);
    await database.query('drop table reading');
  });

  it('rolls a failed transaction back and releases the connection', async () => {
    await database.query('create table tried (id int)');
    await expect(
      database.transaction(async (client) => {
        await client.query('insert into tried values (1)');
        throw new Error('changed my mind');
      }),
    ).rejects.toThrow('changed my mind');
    expect(await database.query('select * from tried')).toEqual([]);
    expect(database.pool.waitingCount).toBe(0);
  });

  it('responds to a ping while every connection of the shared pool is in use and others wait for one', async () => {
    const all = database.pool.options.max;
    const taken = await Promise.all(Array.from({ length: all }, () => database.pool.connect()));
    const waiting = database.query('select 1 as one');
    try {
      await database.ping();
    } finally {
      for (const client of taken) client.release();
    }
    expect(await waiting).toEqual([{ one: 1 }]);
  });

  it('survives the loss of every connection, and continues listening', async () => {
    const heard: string[] = [];
    const stop = await database.listen('tidings', (payload) => heard.push(payload));
    const client = await database.pool.connect();
    await database.query(`select pg_notify('tidings', 'one')`);
    await until('it was told', () => (heard.includes('one') ? true : undefined));
    const owner = new pg.Client({ connectionString: place.url });
    await owner.connect();
    await owner.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
    );
    await until('it was told', () => (heard.includes('') ? true : undefined));
    client.release(true);
    await owner.query(`select pg_notify('tidings', 'two')`);
    await until('it was told', () => (heard.includes('two') ? true : undefined));
    await stop();
    await owner.end();
  });

  it('migrates once when several replicas start at the same moment', async () => {
    const fresh = await emptyDatabase();
    const replicas = await Promise.all([1, 2, 3].map(() => openDatabase({ url: fresh.url, allowUnsafe: true })));
    expect(await replicas[0]?.query('select * from es_event')).toEqual([]);
    await Promise.all(replicas.map((replica) => replica.close()));
    await fresh.drop();
  });

  it('works without the role, with a warning, if the owner may not create roles', async () => {
    const fresh = await emptyDatabase();
    const plain = `plain_${randomUUID().replaceAll('-', '')}`;
    const admin = new pg.Client({ connectionString: fresh.url });
    await admin.connect();
    await admin.query(`create role ${plain} login password 'plain'; grant all on schema public to ${plain}`);
    const url = new URL(fresh.url);
    url.username = plain;
    url.password = 'plain';
    const modest = await openDatabase({ url: url.href, allowUnsafe: true });
    expect(await modest.query('select current_user as name')).toEqual([{ name: plain }]);
    await modest.query(`insert into es_event values (1, 'a-1', 0, gen_random_uuid(), 'T', 1, '{}', '{}', 4, now())`);
    await expect(modest.query('delete from es_event')).rejects.toThrow(/events are never changed/);
    await modest.close();
    await admin.query(`drop owned by ${plain}; drop role ${plain}`);
    await admin.end();
    await fresh.drop();
  });
});

describe('A database from before the first release', () => {
  let place: TestDatabase;
  let owner: pg.Client;

  beforeAll(async () => {
    place = await emptyDatabase();
    owner = new pg.Client({ connectionString: place.url });
    await owner.connect();
  });

  afterAll(async () => {
    await owner.end();
    await place.drop();
  });

  it('is refused, with a sentence that says how to start over', async () => {
    await owner.query('create table mooring_migration (id serial primary key, timestamp bigint not null, name varchar not null)');
    await owner.query(`insert into mooring_migration (timestamp, name) values (1700000000001, 'Events1700000000001')`);
    await expect(openDatabase({ url: place.url, allowUnsafe: true })).rejects.toThrow(
      'the database was made by a program from before the first release, and can not be brought up to date: ' +
        'begin anew with an empty data folder (MOORING_DATA_DIR) and, if DATABASE_URL is set, an empty database',
    );
    const { rows } = await owner.query(`select tablename from pg_tables where schemaname = 'public'`);
    expect(rows).toEqual([{ tablename: 'mooring_migration' }]);
  });

  it('is used once it is empty, and at each later start', async () => {
    await owner.query('drop table if exists mooring_migration');
    for (let start = 0; start < 2; start++) await (await openDatabase({ url: place.url, allowUnsafe: true })).close();
    const { rows } = await owner.query('select count(*)::int as migrations from mooring_migration');
    expect(rows).toEqual([{ migrations: migrations.length }]);
  });
});
