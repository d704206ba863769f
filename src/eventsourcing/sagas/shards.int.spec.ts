import { once } from 'node:events';

import { sampleEvent } from '../../../test/support/sample-event.ts';
import { appendTo, eventually, everything, openLog, operate, type OpenedLog } from '../../../test/support/log.ts';
import { freshDatabase, type TestDatabase } from '../../../test/support/postgres.ts';
import { SagaProcess } from '../../../test/support/saga-process.ts';
import { idOf } from '../event-store/event-store.ts';
import type { Saga, SagaPass } from './saga.ts';
import { shardOf, SHARDS } from './shards.ts';

const KEYS = Array.from({ length: 300 }, (_, n) => `boat${n}`);

describe('the shards of several replicas', () => {
  let test: TestDatabase;
  let log: OpenedLog;
  const replicas: SagaProcess[] = [];
  /** The replica that worked on each key last. */
  const holder = new Map<string, number>();

  const sagaOf = (replica: number, change: Partial<Saga> = {}): Saga => ({
    name: 'harbour',
    filter: { ...everything, categories: ['boat'] },
    concurrency: 50,
    keyOf: (event) => idOf(event.stream),
    reconcile: async (key) => (holder.set(key, replica), null),
    resync: async () => KEYS.map((key) => ({ key, account: null })),
    ...change,
  });

  const start = async (change: Partial<Saga> = {}) => {
    const replica = new SagaProcess(await openLog(test.url));
    replica.sagas.register(sagaOf(replicas.push(replica) - 1, change));
    await replica.start();
    return replica;
  };
  const counts = () => replicas.map(({ sagas }) => sagas.shardCount);
  const shared = (expected: number[]) =>
    eventually(() => JSON.stringify(counts().toSorted((a, b) => a - b)) === JSON.stringify(expected), `shares of ${expected.join(', ')}`);
  /** Wakes every key on every replica; returns how many keys each of them worked on. */
  const workedOn = async () => {
    holder.clear();
    await eventually(() => {
      for (const { sagas } of replicas) for (const key of KEYS) sagas.wake('harbour', key);
      return holder.size === KEYS.length;
    }, 'all keys');
    return replicas.map((_, replica) => [...holder.values()].filter((each) => each === replica).length);
  };
  /** Ends the session of the replica's leases, as its death would, for good. */
  const die = async ({ leases }: SagaProcess) => {
    const { owner } = (leases as unknown as { session: { owner: string } }).session;
    jest
      .spyOn(leases, 'acquire')
      .mockImplementation((_name, signal) => once(signal, 'abort').then(() => Promise.reject(new Error('dead'))));
    await operate(test.url, 'select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1', [owner]);
  };

  beforeEach(async () => {
    test = await freshDatabase();
    log = await openLog(test.url);
    holder.clear();
  });
  afterEach(async () => {
    for (const replica of replicas.splice(0)) await replica.stop();
    await log.close();
    await test.drop();
  });

  it('are lost with the session, and the process is notified that others may consider it dead', async () => {
    const process = await start();
    await shared([SHARDS]);
    let lost = 0;
    process.replica.onLost(() => (lost += 1));
    await operate(
      test.url,
      'select pg_terminate_backend(pid) from pg_stat_activity where application_name in (select owner from consumer_leases)',
    );
    await eventually(() => lost === 1, 'the loss');
    await shared([SHARDS]);
  });

  it('all belong to a single replica', async () => {
    await start();
    await shared([SHARDS]);
    await eventually(() => holder.size === KEYS.length);
  });

  it('are acquired by a process that deletes the replicas that ended over an hour ago, except the last of them', async () => {
    const leave = (id: string, ago: string) =>
      operate(test.url, `insert into consumer_leases (name, owner, epoch, expires_at) values ($1, 'no session', 1, now() - $2::interval)`, [
        `replica:${id}`,
        ago,
      ]);
    for (const [id, ago] of [
      ['first', '3 days'],
      ['last', '2 hours'],
      ['lately', '2 minutes'],
    ] as const)
      await leave(id, ago);
    const { replica } = await start();
    await shared([SHARDS]);
    const left = await operate(test.url, `select name from consumer_leases where name like 'replica:%' order by expires_at`);
    expect(left.map(({ name }) => name)).toEqual(['replica:last', 'replica:lately', replica.lease]);
  });

  it('are spread evenly over two replicas, over three, and over the remaining ones', async () => {
    await start();
    await start();
    await shared([32, 32]);
    expect(Math.min(...(await workedOn()))).toBeGreaterThan(KEYS.length * 0.4);
    await start();
    await shared([20, 22, 22]);
    expect(Math.min(...(await workedOn()))).toBeGreaterThan(KEYS.length * 0.25);
    await replicas[1]?.stop();
    replicas.splice(1, 1);
    await shared([32, 32]);
  });

  it('are each acquired by one of many replicas that start at once, and every key is run', async () => {
    await Promise.all([start(), start(), start(), start()]);
    await shared([16, 16, 16, 16]);
    const rows = await log.database.query<{ owner: string; count: string }>(
      `select owner, count(*) from consumer_leases where name like 'shard:%' group by owner`,
    );
    expect(rows.map(({ count }) => Number(count))).toEqual([16, 16, 16, 16]);
    await eventually(() => holder.size === KEYS.length, 'all keys');
  });

  it('are taken over before their leases expire if a replica’s session dies, and the work in them continues', async () => {
    const [one, two] = [await start(), await start()];
    await shared([32, 32]);
    await workedOn();
    const orphans = [...holder].filter(([, replica]) => replica === 0).map(([key]) => key);
    holder.clear();
    const began = performance.now();
    await die(one);
    await eventually(() => orphans.every((key) => holder.get(key) === 1), 'work on the keys of the dead one');
    expect(performance.now() - began).toBeLessThan(10_000);
    expect([one.sagas.shardCount, two.sagas.shardCount]).toEqual([0, SHARDS]);
  });

  it('are taken over after their leases expire if a replica is suspended, which does nothing more when it resumes', async () => {
    let go: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (go = resolve));
    const outcomes: string[] = [];
    const late = new Date(Date.now() + 3_600_000);
    const reconcile = async (key: string, { assertLease }: SagaPass) => {
      if (key !== 'Ark') return null;
      outcomes.push('begun');
      await held;
      try {
        assertLease();
        outcomes.push('acted');
      } catch (error) {
        outcomes.push((error as Error).message);
      }
      return late;
    };
    const one = await start({ reconcile, resync: async () => [] });
    await shared([SHARDS]);
    await appendTo(log.store, 'boat-Ark', sampleEvent('BoatArrived'));
    await eventually(() => outcomes.includes('begun'));
    // The lease has expired by the database's clock, but the replica does not know, as if it were suspended.
    jest.spyOn(one.leases as unknown as { heartbeat(): Promise<void> }, 'heartbeat').mockResolvedValue();
    await log.database.query(`update consumer_leases set expires_at = now() - interval '1 second' where name not like 'projection:%'`);
    const two = await start();
    await eventually(() => two.sagas.shardCount === SHARDS, 'the takeover');
    const now = jest.spyOn(Date, 'now').mockReturnValue(Date.now() + 10_000);
    go();
    await eventually(() => outcomes.length > 1);
    now.mockRestore();
    expect(outcomes).toEqual(['begun', 'the lease has expired']);
    // Its late deadline names an old epoch.
    await eventually(() => one.sagas.stats().harbour?.retrying === 1);
    expect(await log.database.query(`select from saga_deadlines where key = 'Ark'`)).toEqual([]);
  });

  it('are released to a new replica once the passes in them have ended by themselves', async () => {
    let go: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (go = resolve));
    let aborted = 0;
    const reconcile = async (_key: string, { signal, withoutSlot }: SagaPass) => {
      signal.addEventListener('abort', () => (aborted += 1));
      await withoutSlot(() => held);
      return null;
    };
    const one = await start({ reconcile });
    await eventually(() => one.sagas.stats().harbour?.aside === KEYS.length, 'a pass in every shard');
    const asked = jest.spyOn(one.sagas, 'busyShards');
    const two = await start({ reconcile });
    await eventually(() => asked.mock.calls.length >= 2, 'looks for shards to give');
    expect([aborted, one.sagas.shardCount, two.sagas.shardCount]).toEqual([0, SHARDS, 0]);
    go();
    await shared([32, 32]);
    expect(aborted).toBe(0);
  });

  it('stay the same for a key in every version', () => {
    expect(['a', 'b', '0197b6f0-5a3e-7cc0-8000-000000000001', 'Ärger'].map(shardOf)).toEqual([10, 62, 16, 35]);
  });

  it('are computed by the database as by the program', async () => {
    const { SHARD_OF_KEY } = await import('./shards.ts');
    const rows = await log.database.query<{ key: string; shard: number }>(
      `select key, ${SHARD_OF_KEY} as shard from unnest($1::text[]) k(key)`,
      [[...KEYS, 'Ärger', '']],
    );
    for (const { key, shard } of rows) expect([key, shard]).toEqual([key, shardOf(key)]);
  });
});
