import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { keyIdOf, newDataKey, unwrapDataKey, wrapDataKey } from '../../src/crypto/envelope.ts';
import { pause } from '../../src/kernel/async/pause.ts';
import { killable, Kills } from '../support/kills.ts';
import { operate } from '../support/log.ts';
import { OutsidePostgres } from '../support/outside-postgres.ts';
import { masterKey, replicaOptions } from '../support/replicas.ts';
import { type ServiceResponse, type ServiceOptions, StartedService } from '../support/started-service.ts';
import { until } from '../support/until.ts';

/** The number of data keys of a rotation: several batches. */
const DATA_KEYS = 2_500;
/** A replica that was killed counts as alive for 20 s. */
const ROTATION_MS = 120_000;
/** The settings of a service whose master key is in its data folder. */
const inFile = { MOORING_MASTER_KEY: '' };

interface Rotation {
  rotation_id: string;
  phase: 'rewrapping' | 'waiting' | 'finished';
  data_keys_left: number;
  replicas_left: number;
}

/** Sends requests with one session of the administrator, because signing in is limited. */
class Administrator {
  private token = '';

  async ask(service: StartedService, method: string, path: string, body?: unknown): Promise<ServiceResponse> {
    if (this.token === '') {
      const { email, password } = service.firstRun;
      this.token = (await service.call('POST', '/api/auth/login', { email, password })).body.session_token as string;
    }
    return service.call(method, path, body, { authorization: `Bearer ${this.token}` });
  }

  async rotation(service: StartedService): Promise<Rotation> {
    return (await this.ask(service, 'GET', '/api/admin/keys')).body.rotation as Rotation;
  }
}

/** Inserts data keys wrapped by the master key. Returns them by subject. */
async function fill(url: string, oldKey: Buffer): Promise<Map<string, Buffer>> {
  const keys = new Map(Array.from({ length: DATA_KEYS }, (_, n) => [`filled-${n}`, newDataKey()] as const));
  const wrapped = [...keys].map(([subject, key]) => wrapDataKey(oldKey, subject, 1, key));
  await operate(
    url,
    `insert into data_keys (subject, version, kek_id, wrapped)
     select s, 1, $1, w from unnest($2::text[], $3::bytea[]) k(s, w)`,
    [keyIdOf(oldKey), [...keys.keys()], wrapped],
  );
  return keys;
}

/** Expects that the new master key opens every data key, and that each is the one that it was. */
async function expectRewrapped(url: string, newKey: Buffer, keys: Map<string, Buffer>): Promise<void> {
  const rows = await operate(url, 'select subject, version, kek_id, wrapped from data_keys where wrapped is not null');
  expect(new Set(rows.map(({ kek_id }) => kek_id))).toEqual(new Set([keyIdOf(newKey)]));
  for (const { subject, version, wrapped } of rows as { subject: string; version: number; wrapped: Buffer }[]) {
    const opened = unwrapDataKey(newKey, subject, version, wrapped).export();
    expect(opened.equals(keys.get(subject) ?? opened)).toBe(true);
  }
  expect(rows.length).toBeGreaterThanOrEqual(keys.size);
}

/** Seals and opens values again and again until `over`. Returns the number of requests and the statuses of those that failed. */
async function keepUsing(service: StartedService, over: () => boolean): Promise<{ sent: number; failed: number[] }> {
  const failed: number[] = [];
  let sent = 0;
  for (; !over(); sent += 2) {
    const key = { 'idempotency-key': `use-${service.pid}-${sent}` };
    const first = await service.call('PUT', `/api/v1/secrets/used-${service.pid}`, { value: `value ${sent}` });
    // The repeat opens the sealed response of the first one.
    const made = await service.call('POST', '/api/v1/subscriptions', { url: 'https://receiver.invalid/' }, key);
    const again = await service.call('POST', '/api/v1/subscriptions', { url: 'https://receiver.invalid/' }, key);
    expect(again.body).toEqual(made.body);
    const removed = await service.call('DELETE', `/api/v1/subscriptions/${made.body.id}`);
    failed.push(...[first, made, again, removed].map(({ status }) => status).filter((status) => status >= 300));
    await pause(20);
  }
  return { sent, failed };
}

/** Starts a service that has an order to kill itself, which may happen before it was seen to answer. */
async function startArmed(service: StartedService): Promise<void> {
  await service.start().catch((error: unknown) => {
    if (!service.wasKilled) throw error;
  });
}

describe('a rotation of the master key', () => {
  let database: OutsidePostgres;
  let folder: string;
  let admin: Administrator;
  const services: StartedService[] = [];
  const start = async (environment: Record<string, string> = {}, others: Partial<ServiceOptions> = {}): Promise<StartedService> => {
    const options = replicaOptions(database.url, 'local', { ...others, dataDir: folder, environment });
    const [first] = services;
    const service = await StartedService.start(first === undefined ? options : { ...options, caller: first.firstRun });
    services.push(service);
    return service;
  };

  beforeEach(async () => {
    admin = new Administrator();
    database = await OutsidePostgres.start();
    folder = await mkdtemp(join(tmpdir(), 'mooring-keys-e2e-'));
  });
  afterEach(async () => {
    for (const service of services.splice(0)) {
      service.resume();
      await service.kill();
    }
    await database.stop();
    await rm(folder, { recursive: true, force: true });
  });

  it('continues at the next start after a kill at every step, loses no data key, and refuses the old key afterwards', async () => {
    const service = await start(inFile, await killable());
    const kills = new Kills(service);
    const written = async () => (await readFile(join(folder, 'master.key'), 'utf8')).trim();
    const oldKey = await written();
    const keys = await fill(database.url, Buffer.from(oldKey, 'hex'));
    const order = () => kills.order({ after: 1, saga: 'master-key' });
    const isOver = async () => (await admin.rotation(service)).phase === 'finished';
    await order();
    // The saga may kill the service before the response is sent.
    await admin.ask(service, 'POST', '/api/admin/keys/rotate', {}).catch(() => null);
    while (await kills.dies(isOver, { timeoutMs: ROTATION_MS })) {
      await order();
      await startArmed(service);
    }
    const crashes = (await readFile(join(folder, 'crash-order.crashes'), 'utf8')).trim().split('\n');
    const batches = crashes.filter((crash) => crash === 'master-key rewrapped');
    expect(batches.length).toBeGreaterThan(1);
    expect(crashes).toEqual([...batches, 'master-key forgotten', 'master-key recorded', 'master-key finished']);
    await expectRewrapped(database.url, Buffer.from(await written(), 'hex'), keys);
    expect(await operate(database.url, 'select from master_key_exchange')).toEqual([]);
    const types = await operate(database.url, `select type from es_event where stream like 'masterKeyRotation-%' order by position`);
    expect(types.map(({ type }) => type)).toEqual(['MasterKeyRotationBegun', 'MasterKeyRotated']);
    await service.stop();
    await expect(start({ MOORING_MASTER_KEY: oldKey })).rejects.toThrow('the master key is not the one');
    await start(inFile);
  });

  it('fails no request, and does not end before a replica that was suspended throughout has the new key', async () => {
    const [working, suspended] = [await start(), await start()];
    const keys = await fill(database.url, Buffer.from(masterKey, 'hex'));
    const newKey = randomBytes(32);
    const first = await suspended.call('PUT', '/api/v1/secrets/first', { value: 'before' });
    expect(first.status).toBe(201);
    let over = false;
    const using = keepUsing(working, () => over);
    suspended.pause();
    const begun = await admin.ask(working, 'POST', '/api/admin/keys/rotate', { new_master_key: newKey.toString('hex') });
    expect(begun.status).toBe(202);
    await until(
      'only the suspended replica is waited for',
      async () => {
        const { phase, data_keys_left, replicas_left } = await admin.rotation(working);
        return phase === 'waiting' && data_keys_left === 0 && replicas_left === 1 ? true : undefined;
      },
      { timeoutMs: ROTATION_MS },
    );
    suspended.resume();
    let overThere = false;
    const usingThere = keepUsing(suspended, () => overThere);
    await until('its end', async () => ((await admin.rotation(working)).phase === 'finished' ? true : undefined), {
      timeoutMs: ROTATION_MS,
    });
    over = overThere = true;
    for (const { sent, failed } of [await using, await usingThere]) {
      expect(sent).toBeGreaterThan(0);
      expect(failed).toEqual([]);
    }
    await expectRewrapped(database.url, newKey, keys);
  });
});
