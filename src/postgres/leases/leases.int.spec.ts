import { spawn } from 'node:child_process';
import { once } from 'node:events';

import { quickIntervals } from '../../../test/support/intervals.ts';
import { eventually, operate } from '../../../test/support/log.ts';
import { freshDatabase, type TestDatabase } from '../../../test/support/postgres.ts';
import type { Database } from '../database/database.ts';
import { openDatabase } from '../database/open-database.ts';
import { Leases } from './leases.ts';

describe('leases', () => {
  let test: TestDatabase;
  const opened: { database: Database; stop: AbortController }[] = [];

  /** Opens the leases of one process; its waits end with the test. */
  const open = async () => {
    const database = await openDatabase({ url: test.url, allowUnsafe: true });
    const stop = new AbortController();
    opened.push({ database, stop });
    const leases = new Leases(database, quickIntervals);
    return { database, acquire: (name: string, onHeld?: () => void) => leases.acquire(name, stop.signal, onHeld) };
  };
  const held: { release(): Promise<void> }[] = [];
  const keep = <Held extends { release(): Promise<void> }>(lease: Held) => (held.push(lease), lease);

  beforeEach(async () => {
    test = await freshDatabase();
  });
  afterEach(async () => {
    await Promise.all(held.splice(0).map((lease) => lease.release()));
    for (const { stop } of opened) stop.abort(new Error('over'));
    for (const { database } of opened.splice(0)) await database.close();
    await test.drop();
  });

  it('has one holder at a time; the next one gets it when it is released, with a higher epoch', async () => {
    const [one, two] = [await open(), await open()];
    const first = keep(await one.acquire('boats'));
    let second: Awaited<ReturnType<typeof two.acquire>> | null = null;
    let heard = 0;
    const waiting = two.acquire('boats', () => (heard += 1)).then((lease) => (second = keep(lease)));
    await eventually(() => heard > 0, 'the other process is seen to hold it');
    const other = keep(await two.acquire('tides'));
    expect([first.valid, other.valid, second]).toEqual([true, true, null]);
    await first.release();
    expect(first.valid).toBe(false);
    expect(first.signal.aborted).toBe(true);
    const taken = await waiting;
    expect(BigInt(taken.fencingToken)).toBe(BigInt(first.fencingToken) + 1n);
  });

  it('is never held by two of many processes that want it at once', async () => {
    const processes = await Promise.all(Array.from({ length: 5 }, open));
    let holders = 0;
    let most = 0;
    const epochs: string[] = [];
    await Promise.all(
      processes.map(async ({ acquire }) => {
        const lease = await acquire('boats');
        most = Math.max(most, (holders += 1));
        epochs.push(lease.fencingToken);
        await new Promise((resolve) => setImmediate(resolve));
        holders -= 1;
        await lease.release();
      }),
    );
    expect(most).toBe(1);
    expect(epochs).toEqual(['1', '2', '3', '4', '5']);
  });

  it('is acquired by another before it expires if the session of its holder dies, and the old holder notices', async () => {
    const [one, two] = [await open(), await open()];
    const lost = await one.acquire('boats');
    const aborted = once(lost.signal, 'abort');
    const waiting = two.acquire('boats');
    const began = performance.now();
    await operate(
      test.url,
      'select pg_terminate_backend(pid) from pg_stat_activity where application_name in (select owner from consumer_leases)',
    );
    keep(await waiting);
    await aborted;
    expect(performance.now() - began).toBeLessThan(10_000);
    expect(lost.valid).toBe(false);
  });

  it('is acquired immediately by a process that starts after the holder was killed', async () => {
    const program = `
      const { openDatabase } = await import('./src/postgres/database/open-database.ts');
      const { Leases } = await import('./src/postgres/leases/leases.ts');
      const database = await openDatabase({ url: process.env.DATABASE_URL, allowUnsafe: true });
      const lease = await new Leases(database).acquire('boats', new AbortController().signal);
      process.stdout.write('epoch ' + lease.fencingToken);`;
    const env = { ...process.env, DATABASE_URL: test.url };
    const args = ['--import', './scripts/typescript.mjs', '--input-type=module', '-e', program];
    const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
    let said = '';
    child.stdout.on('data', (text: Buffer) => (said += String(text)));
    await eventually(() => said.includes('epoch 1'), 'the first holder');
    const exit = once(child, 'exit');
    child.kill('SIGKILL');
    await exit;
    const began = performance.now();
    const { acquire } = await open();
    const lease = keep(await acquire('boats'));
    expect(performance.now() - began).toBeLessThan(10_000);
    expect(lease.fencingToken).toBe('2');
  });

  it('is free once it has expired, although the session of its holder exists', async () => {
    const [one, two] = [await open(), await open()];
    const first = await one.acquire('boats');
    let taken = false;
    const taking = two.acquire('boats').finally(() => (taken = true));
    // A renewal may happen before the other process checks, so the lease of the first holder is expired again until the other has it.
    const expire = () => two.database.query(`update consumer_leases set expires_at = now() - interval '1 second' where epoch = 1`);
    await eventually(async () => {
      await expire();
      return taken;
    }, 'the other holder');
    const second = keep(await taking);
    expect(second.fencingToken).toBe('2');
    // The old holder finds out with its next renewal.
    await eventually(() => first.signal.aborted, 'the loss');
    expect(second.valid).toBe(true);
  });

  it('is renewed for as long as it is held', async () => {
    const { database, acquire } = await open();
    keep(await acquire('boats'));
    const expiry = async () =>
      (await database.query<{ expires_at: Date }>('select expires_at from consumer_leases'))[0]?.expires_at.getTime() ?? 0;
    const first = await expiry();
    await eventually(async () => (await expiry()) > first, 'a renewal');
  });

  it('keeps no session once no lease is held or wanted', async () => {
    const { database, acquire } = await open();
    const lease = await acquire('boats');
    const sessions = () =>
      database.query(
        `select from pg_stat_activity a join consumer_leases l on a.application_name = l.owner where a.datname = current_database()`,
      );
    expect(await sessions()).toHaveLength(1);
    await lease.release();
    await eventually(async () => (await sessions()).length === 0, 'the end of the session');
  });
});
