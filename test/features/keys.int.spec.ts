import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { AdminModule } from '../../src/features/admin/admin.module.ts';
import { keyEvents } from '../../src/features/admin/index.ts';
import { Keyring, type Sealed } from '../../src/crypto/keyring.ts';
import { MasterKeys, UnknownMasterKey } from '../../src/crypto/master-keys.ts';
import { Database } from '../../src/postgres/database/database.ts';
import { FaultyRuntimeModule } from '../support/faulty-runtime.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { runningFeatures } from '../support/features.ts';
import type { TestResponse, TestServer } from '../support/http-server.ts';
import { until } from '../support/until.ts';

const given = 'ab'.repeat(32);
const next = 'cd'.repeat(32);

async function started(environment: Record<string, string>): Promise<TestServer> {
  const running = runningFeatures(FaultyRuntimeModule.forTest(() => undefined));
  return startFeatureServer({
    ...running,
    modules: [...running.modules, AdminModule],
    definitions: [...running.definitions, ...Object.values(keyEvents)],
    environment,
  });
}

const ask = (server: TestServer, method: string, path: string, json?: unknown, credential = 'ms_root') =>
  server.request(method, `/api/admin/${path}`, { credential, ...(json === undefined ? {} : { json }) });

const finished = (server: TestServer, rotationId: string) =>
  until('the rotation is over', async () => {
    const { rotation } = (await ask(server, 'GET', 'keys')).json;
    return rotation.rotation_id === rotationId && rotation.phase === 'finished' ? rotation : undefined;
  });

function expectProblem(answer: TestResponse, status: number, code: string): void {
  expect({ status: answer.status, code: answer.json?.code }).toEqual({ status, code });
}

describe('the master key in the data folder', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await started({});
  });
  afterAll(() => server?.close());

  const inFile = async () => (await readFile(join(server.config.dataDir, 'master.key'), 'utf8')).trim();

  it('is rotated and shown only by an administrator', async () => {
    expectProblem(await ask(server, 'POST', 'keys/rotate', {}, 'ms_acme'), 403, 'insufficient_scope');
    expectProblem(await ask(server, 'GET', 'keys', undefined, 'ms_acme'), 403, 'insufficient_scope');
    expectProblem(await ask(server, 'POST', 'keys/rotate', {}, 'mk_acme'), 401, 'unauthenticated');
    expect((await ask(server, 'GET', 'keys')).json).toEqual({
      master_key_id: expect.stringMatching(/^[0-9a-f]{16}$/),
      kept_in: 'file',
      rotation: null,
    });
  });

  it.each([[{ new_master_key: 'short' }], [{ new_master_key: null }], [{ new_master_key: 7 }], [{ other: 1 }]])(
    'is not rotated by an invalid body: %j',
    async (body) => {
      const before = await inFile();
      expectProblem(await ask(server, 'POST', 'keys/rotate', body), 400, 'invalid_request');
      expect((await ask(server, 'GET', 'keys')).json.rotation).toBeNull();
      expect(await inFile()).toBe(before);
    },
  );

  it('is replaced while values are sealed and opened; the log contains who did it, and no key', async () => {
    const [keyring, database] = [server.app.get(Keyring, { strict: false }), server.app.get(Database, { strict: false })];
    const values: { subject: string; value: Sealed }[] = [];
    const seal = async (subject: string) => values.push({ subject, value: await keyring.seal(subject, 'c', subject) });
    for (let n = 0; n < 5; n += 1) await seal(`before-${n}`);
    const oldKey = await inFile();
    const answer = await ask(server, 'POST', 'keys/rotate', {});
    expect(answer).toMatchObject({ status: 202, json: { rotation_id: expect.any(String) } });
    expectProblem(await ask(server, 'POST', 'keys/rotate', {}), 409, 'invalid_state');
    for (let n = 0; n < 5; n += 1) await seal(`meanwhile-${n}`);
    const rotation = await finished(server, answer.json.rotation_id);
    expect(rotation).toMatchObject({ data_keys_left: 0, replicas_left: 0, finished_at: expect.any(String) });
    for (const { subject, value } of values) expect(await keyring.open(subject, 'c', value)).toBe(subject);

    const newKey = await inFile();
    expect(newKey).not.toBe(oldKey);
    expect((await readdir(server.config.dataDir)).filter((name) => name.startsWith('master.key'))).toEqual(['master.key']);
    await expect(new MasterKeys(database, Buffer.from(oldKey, 'hex'), null).verify()).rejects.toThrow(UnknownMasterKey);

    const events = (await ask(server, 'GET', `events?stream=masterKeyRotation-${answer.json.rotation_id}`)).json;
    const data = { rotation_id: answer.json.rotation_id, from_key_id: rotation.from_key_id, to_key_id: rotation.to_key_id };
    expect(events).toMatchObject([
      { type: 'MasterKeyRotationBegun', data, account_id: 'root', actor: { kind: 'session', id: 'root' } },
      { type: 'MasterKeyRotated', data, account_id: 'root', actor: { kind: 'system', id: 'master-key' } },
    ]);
    const everything = JSON.stringify([events, server.logLines, await database.query('select * from master_key_rotations')]);
    for (const key of [oldKey, newKey])
      for (const spelling of [key, Buffer.from(key, 'hex').toString('base64')]) expect(everything).not.toContain(spelling);
  });
});

describe('a master key from the operator’s settings', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await started({ MOORING_MASTER_KEY: given });
  });
  afterAll(() => server?.close());

  it('is replaced only by another one from the operator, and never automatically', async () => {
    expectProblem(await ask(server, 'POST', 'keys/rotate', {}), 400, 'invalid_request');
    expectProblem(await ask(server, 'POST', 'keys/rotate', { new_master_key: given }), 400, 'invalid_request');
    const answer = await ask(server, 'POST', 'keys/rotate', { new_master_key: next });
    expect(answer.status).toBe(202);
    await finished(server, answer.json.rotation_id);
    expectProblem(await ask(server, 'POST', 'keys/rotate', { new_master_key: given }), 400, 'invalid_request');
    const database = server.app.get(Database, { strict: false });
    await expect(new MasterKeys(database, Buffer.from(given, 'hex'), null).verify()).rejects.toThrow(UnknownMasterKey);
    await expect(new MasterKeys(database, Buffer.from(next, 'hex'), null).verify()).resolves.toBeUndefined();
    expect(await readdir(server.config.dataDir)).not.toContain('master.key');
    const answers = JSON.stringify([answer, await ask(server, 'GET', 'keys'), server.logLines]);
    expect(answers).not.toContain(next);
  });
});
