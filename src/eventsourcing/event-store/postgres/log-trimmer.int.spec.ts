import { Logger } from '@nestjs/common';
import pg from 'pg';

import { contractCatalogue } from '../../../../test/support/event-store-contract.ts';
import { operate } from '../../../../test/support/log.ts';
import { freshDatabase, type TestDatabase } from '../../../../test/support/postgres.ts';
import { until, untilTrue } from '../../../../test/support/until.ts';
import type { Database } from '../../../postgres/database/database.ts';
import { openDatabase } from '../../../postgres/database/open-database.ts';
import { LogTrimmer } from './log-trimmer.ts';
import { PostgresEventStore } from './postgres-event-store.ts';

const WEEK_SECONDS = 7 * 24 * 3600;

let place: TestDatabase;
let database: Database;
let store: PostgresEventStore;

beforeEach(async () => {
  place = await freshDatabase();
  database = await openDatabase({ url: place.url, allowUnsafe: true });
  store = new PostgresEventStore(database, contractCatalogue);
});
afterEach(async () => {
  jest.restoreAllMocks();
  await store.close();
  await database.close();
  await place.drop();
});

/** Inserts events of the given age (an interval) at the end of the log, spread evenly over the streams. */
async function written(events: number, streams: number, age: string): Promise<void> {
  await operate(
    place.url,
    `insert into es_log_event select h.position + n, 'log-' || n % $2, coalesce(v.version, -1) + 1 + (n - 1) / $2,
            gen_random_uuid(), 'LogLinesCaptured', 1, '{"lines":[]}', '{}', 14, now() - $3::interval
       from (select coalesce(max(position), 0) as position from es_log_event) h, generate_series(1, $1::int) n
       left join lateral (select max(version) as version from es_log_event where stream = 'log-' || n % $2) v on true`,
    [events, streams, age],
  );
}

async function bounded(streams: number): Promise<void> {
  for (let stream = 0; stream < streams; stream += 1) await store.setRetention(`log-${stream}`, { maxAgeSeconds: WEEK_SECONDS });
}

const counted = () => operate(place.url, 'select count(*)::int as events, min(position)::int as first from es_log_event');
const judged = () => operate(place.url, 'select position::int as position from es_log_retention');

it('removes everything that is too old in as many transactions as needed, and examines none of it again', async () => {
  await bounded(3);
  await written(12_000, 3, '8 days');
  await written(300, 3, '6 days');
  expect(await store.trim()).toBe(12_000);
  expect(await counted()).toEqual([{ events: 300, first: 12_001 }]);
  expect(await judged()).toEqual([{ position: 12_000 }]);
  expect(await store.trim()).toBe(0);
});

it('keeps the last event of a stream without new events until a later one has expired as well', async () => {
  await bounded(2);
  await written(10, 2, '20 days');
  expect(await store.trim()).toBe(8);
  await written(2, 2, '10 days');
  expect(await store.trim()).toBe(2);
  expect(await counted()).toEqual([{ events: 2, first: 11 }]);
});

it('is not blocked by events from a clock that was ahead', async () => {
  await bounded(1);
  await written(5, 1, '-300 days');
  await written(5, 1, '8 days');
  await written(1, 1, '0 days');
  await store.trim();
  expect(await counted()).toEqual([{ events: 1, first: 11 }]);
});

it('examines old events of a stream again when its retention is changed', async () => {
  await bounded(1);
  await written(10, 1, '8 days');
  await store.trim();
  await written(10, 2, '8 days');
  await store.trim();
  await store.setRetention('log-1', { maxAgeSeconds: WEEK_SECONDS });
  await store.trim();
  expect(await counted()).toEqual([{ events: 2, first: 19 }]);
});

it('examines no more of the table in a later transaction than in an early one, whatever was removed in between', async () => {
  await bounded(2);
  await operate(
    place.url,
    `insert into es_log_event select n, 'log-' || n % 2, (n - 1) / 2, gen_random_uuid(), 'LogLinesCaptured', 1, '{"lines":[]}', '{}', 14,
            now() - interval '8 days' from generate_series(1, 40000) n`,
  );
  await operate(place.url, 'alter table es_log_event set (autovacuum_enabled = false)');
  await operate(place.url, 'analyze es_log_event');
  const client = new pg.Client({ connectionString: place.url });
  await client.connect();
  const blocks = async () => {
    await client.query('select pg_stat_force_next_flush()');
    const { rows } = await client.query<{ blocks: number }>(
      `select (heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read)::float8 as blocks
         from pg_statio_user_tables where relid = 'es_log_event'::regclass`,
    );
    return rows[0]?.blocks ?? NaN;
  };
  // The server passes over removed rows only once it knows that nobody can still see them: when no snapshot in this database, and no writing
  // transaction in any database, is older than the removal.
  const passable = `select pg_snapshot_xmin(pg_current_snapshot()) > $1::xid8 and not exists (
      select from pg_stat_activity where datname = current_database() and backend_xmin::text::bigint <= $1::text::bigint) as passable`;
  const costs: number[] = [];
  let removal = '0';
  for (let step = 0; step < 38; step += 1) {
    await untilTrue(async () => (await client.query<{ passable: boolean }>(passable, [removal])).rows[0]?.passable === true);
    const before = await blocks();
    const { rows } = await client.query<{ xid: string }>('select es_log_forget(1000), pg_current_xact_id()::text as xid');
    removal = rows[0]?.xid ?? '';
    costs.push((await blocks()) - before);
  }
  await client.end();
  const [, early = NaN] = costs;
  expect(costs.at(-1)).toBeLessThan(1.5 * early);
  expect(early).toBeLessThan(8 * 1_000);
});

it('reports when nothing was left to remove, and why it failed', async () => {
  const said = jest.spyOn(Logger.prototype, 'error').mockImplementation(() => undefined);
  expect(await store.retention()).toEqual({ caughtUpAt: null, removed: 0, error: null });
  await bounded(1);
  await written(10, 1, '8 days');
  await operate(place.url, 'alter function es_log_forget(int) rename to es_log_gone');
  const trimmer = new LogTrimmer(database.pool, 20);
  try {
    const failed = await until('a failure', async () => ((await trimmer.status()).error === null ? undefined : trimmer.status()));
    expect(failed).toMatchObject({ caughtUpAt: null, removed: 0, error: expect.stringContaining('es_log_forget') });
    expect(said.mock.calls[0]?.[0]).toMatch(/could not be removed.*tried again.*long transactions/);
    await operate(place.url, 'alter function es_log_gone(int) rename to es_log_forget');
    const status = await until('a success', async () => ((await trimmer.status()).caughtUpAt === null ? undefined : trimmer.status()));
    expect(status).toMatchObject({ caughtUpAt: expect.any(String), removed: 9, error: null });
  } finally {
    await trimmer.stop();
  }
});
