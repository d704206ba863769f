import { CommandBus } from '@nestjs/cqrs';

import { newSession } from '../../src/features/accounts/sessions.ts';
import { apiKeyEvents, IssueApiKey } from '../../src/features/api-keys/index.ts';
import { ApiKeysModule } from '../../src/features/api-keys/api-keys.module.ts';
import { apiKeysProjection } from '../../src/features/api-keys/api-keys.projection.ts';
import { isWellFormed, newRawKey } from '../../src/features/api-keys/raw-key.ts';
import { accountEvents, OpenAccount, Sessions } from '../../src/features/accounts/index.ts';
import { AccountsModule } from '../../src/features/accounts/accounts.module.ts';
import { CredentialsModule } from '../../src/features/credentials.module.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import type { TestServer } from '../support/http-server.ts';
import { Clock } from '../../src/kernel/clock.ts';
import { Database } from '../../src/postgres/database/database.ts';
import { EventStore } from '../../src/eventsourcing/event-store/event-store.ts';
import { ReadModels, tableOf } from '../../src/eventsourcing/projections/projection.ts';
import { scopes } from '../../src/kernel/context/caller.ts';
import { systemContext } from '../../src/kernel/context/command-context.ts';

const masterKey = 'ab'.repeat(32);
const features = {
  modules: [AccountsModule, ApiKeysModule],
  definitions: [...Object.values(accountEvents), ...Object.values(apiKeyEvents)],
  credentials: CredentialsModule,
};

let server: TestServer;
let session: string;
let stranger: string;

async function holder(email: string): Promise<{ accountId: string; token: string }> {
  const context = systemContext('test', null);
  const account = { email, password: 'a long enough password', name: 'Ann', role: 'member' as const };
  const { account_id: accountId } = await server.app.get(CommandBus).execute(new OpenAccount(context, account, null));
  await server.app.get(ReadModels, { strict: false }).waitFor('accounts', context.writtenUpTo!);
  const opened = newSession(new Date());
  await server.app.get(Sessions, { strict: false }).store(accountId, opened);
  return { accountId, token: opened.token };
}

beforeAll(async () => {
  server = await startFeatureServer({ ...features, environment: { MOORING_MASTER_KEY: masterKey } });
  session = (await holder('ann@example.com')).token;
  stranger = (await holder('eve@example.com')).token;
});
afterAll(() => server?.close());

const create = (json: unknown, headers: Record<string, string> = {}, credential = session) =>
  server.request('POST', '/api/v1/keys', { json, headers, credential });
const me = (credential: string) => server.request('GET', '/api/auth/me', { credential });
const database = () => server.app.get(Database, { strict: false });

describe('an API key', () => {
  it('is returned once, and is valid when it is returned', async () => {
    const made = await create({ name: 'ci' });
    expect(made.status).toBe(201);
    const { raw_key, ...item } = made.json;
    expect(isWellFormed(raw_key)).toBe(true);
    expect(item).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      name: 'ci',
      key_prefix: raw_key.slice(0, 11),
      scopes: [...scopes],
      is_active: true,
      last_used_at: null,
      expires_at: null,
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    });
    const list = await server.request('GET', '/api/v1/keys', { credential: session });
    expect(list.json[0]).toEqual(item);
    expect((await me(raw_key)).status).toBe(200);
    expect((await server.request('GET', '/api/auth/me', { headers: { 'x-api-key': raw_key } })).status).toBe(200);
  });

  it('is refused as soon as its revocation is answered, every time', async () => {
    for (let round = 0; round < 10; round += 1) {
      const { id, raw_key } = (await create({ name: 'short' })).json;
      expect((await me(raw_key)).status).toBe(200);
      expect((await server.request('DELETE', `/api/v1/keys/${id}`, { credential: session })).status).toBe(204);
      expect((await me(raw_key)).status).toBe(401);
      expect((await server.request('DELETE', `/api/v1/keys/${id}`, { credential: session })).status).toBe(204);
      const list = (await server.request('GET', '/api/v1/keys', { credential: session })).json;
      expect(list.find((key: { id: string }) => key.id === id).is_active).toBe(false);
    }
  });

  it('is valid at another replica when it is returned, and refused there when its revocation is answered', async () => {
    const environment = { DATABASE_URL: server.databaseUrl, MOORING_MASTER_KEY: masterKey };
    const other = await startFeatureServer({ ...features, environment });
    try {
      for (let round = 0; round < 10; round += 1) {
        const { id, raw_key } = (await create({ name: 'wide' })).json;
        for (let use = 0; use < 2; use += 1) expect((await other.request('GET', '/api/auth/me', { credential: raw_key })).status).toBe(200);
        expect((await server.request('DELETE', `/api/v1/keys/${id}`, { credential: session })).status).toBe(204);
        expect((await other.request('GET', '/api/auth/me', { credential: raw_key })).status).toBe(401);
      }
    } finally {
      await other.close();
    }
  });

  it('is looked up once, and again only if the log can not be followed or had a gap', async () => {
    const { raw_key } = (await create({ name: 'busy' })).json;
    // The list waits until the read model holds the key; before that, a key is looked up a second time once the read model has caught up.
    await server.request('GET', '/api/v1/keys', { credential: session });
    const queries = jest.spyOn(database(), 'query');
    const lookUps = () => queries.mock.calls.filter(([sql]) => sql.includes('where sha256')).length;
    for (let use = 0; use < 5; use += 1) expect((await me(raw_key)).status).toBe(200);
    expect(lookUps()).toBe(1);
    const deaf = jest.spyOn(server.app.get(EventStore, { strict: false }), 'head').mockRejectedValue(new Error('away'));
    expect((await me(raw_key)).status).toBe(200);
    expect(lookUps()).toBe(2);
    deaf.mockRestore();
    expect((await me(raw_key)).status).toBe(200);
    expect(lookUps()).toBe(2);
    queries.mockRestore();
  });

  it('expires', async () => {
    const { id, raw_key, expires_at } = (await create({ name: 'a day', expires_in_days: 1 })).json;
    const left = new Date(expires_at).getTime() - Date.now();
    expect(left).toBeGreaterThan(86_300_000);
    expect(left).toBeLessThanOrEqual(86_400_000);
    expect((await me(raw_key)).status).toBe(200);
    const clock = server.app.get(Clock, { strict: false });
    const now = jest.spyOn(clock, 'now').mockImplementation(() => new Date(expires_at));
    expect((await me(raw_key)).status).toBe(401);
    now.mockRestore();
    await database().query(`update ${tableOf(apiKeysProjection)} set expires_at = now() where key_id = $1`, [id]);
    const list = (await server.request('GET', '/api/v1/keys', { credential: session })).json;
    expect(list.find((key: { id: string }) => key.id === id).is_active).toBe(false);
  });

  it('belongs to its account: another account can’t list or revoke it', async () => {
    const { id } = (await create({ name: 'mine' })).json;
    expect((await server.request('GET', '/api/v1/keys', { credential: stranger })).json).toEqual([]);
    const answers = [id, '0199a7c2-6e0f-7c6b-9a51-0e6a3f1f8a11', 'x', '%20'].map((each) =>
      server.request('DELETE', `/api/v1/keys/${each}`, { credential: stranger, headers: { 'x-request-id': 'same' } }),
    );
    const [foreign, ...others] = await Promise.all(answers);
    expect(foreign!.json.code).toBe('key_not_found');
    for (const other of others) expect([other.status, other.text]).toEqual([foreign!.status, foreign!.text]);
  });

  it('can not make, list or revoke keys', async () => {
    const { id, raw_key } = (await create({ name: 'all' })).json;
    for (const [method, path] of [
      ['POST', '/api/v1/keys'],
      ['GET', '/api/v1/keys'],
      ['DELETE', `/api/v1/keys/${id}`],
    ] as const)
      expect(
        (await server.request(method, path, { credential: raw_key, ...(method === 'POST' ? { json: { name: 'x' } } : {}) })).status,
      ).toBe(401);
  });

  it('is refused with an error that names every invalid field', async () => {
    const fields = async (json: unknown) => {
      const { status, json: problem } = await create(json);
      expect([status, problem.code]).toEqual([400, 'invalid_request']);
      return [...new Set<string>(problem.errors.map((error: { field: string }) => error.field))].sort();
    };
    expect(await fields({})).toEqual(['name']);
    expect(await fields({ name: '', scopes: ['root'], expires_in_days: 0, account_id: 'x' })).toEqual([
      'account_id',
      'expires_in_days',
      'name',
      'scopes',
    ]);
    expect(await fields({ name: 'x'.repeat(101), scopes: 'deploy', expires_in_days: 3_651 })).toEqual([
      'expires_in_days',
      'name',
      'scopes',
    ]);
    expect(await fields({ name: 'x', scopes: [], expires_in_days: 1.5 })).toEqual(['expires_in_days', 'scopes']);
    expect((await create({ name: 'x', scopes: ['deploy'], expires_in_days: null })).json).toMatchObject({
      scopes: ['deploy'],
      expires_at: null,
    });
  });

  it('is made once under an Idempotency-Key, and a repeated request returns it again', async () => {
    const first = await create({ name: 'once' }, { 'idempotency-key': 'one' });
    const again = await create({ name: 'once' }, { 'idempotency-key': 'one' });
    expect(again.json).toEqual(first.json);
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    expect((await me(again.json.raw_key)).status).toBe(200);
  });

  it('that an interrupted try left behind is revoked by the next try', async () => {
    const { accountId } = await holder('seed@example.com');
    const seed = '4f6f0a58-3f0e-4f0c-9c9b-5d8f0c2f0002';
    const issue = () =>
      server.app
        .get(CommandBus)
        .execute(
          new IssueApiKey(systemContext('test', accountId), accountId, { name: 'k', scopes: ['deploy'], expiresInDays: null }, seed),
        );
    const lost = await issue();
    const found = await issue();
    expect((await me(lost.rawKey)).status).toBe(401);
    expect((await me(found.rawKey)).status).toBe(200);
  });

  it('shows the time of its last use, which is written once a minute', async () => {
    const { id, raw_key } = (await create({ name: 'used' })).json;
    const lastUse = async () =>
      (await server.request('GET', '/api/v1/keys', { credential: session })).json.find((key: { id: string }) => key.id === id).last_used_at;
    expect(await lastUse()).toBeNull();
    await me(raw_key);
    const first = await lastUse();
    expect(Date.now() - new Date(first).getTime()).toBeLessThan(60_000);
    await me(raw_key);
    expect(await lastUse()).toBe(first);
    await database().query(`update api_key_uses set last_used_at = now() - interval '61 seconds' where key_id = $1`, [id]);
    const now = jest.spyOn(server.app.get(Clock, { strict: false }), 'now').mockImplementation(() => new Date(Date.now() + 61_000));
    await Promise.all([me(raw_key), me(raw_key)]);
    now.mockRestore();
    expect(new Date(await lastUse()).getTime()).toBeGreaterThanOrEqual(new Date(first).getTime());
  });

  it('is looked up in the database only if it is well-formed', async () => {
    const queries: string[] = [];
    const pool = database().pool;
    const query = pool.query.bind(pool);
    (pool as { query: unknown }).query = (...args: never[]) => {
      queries.push(String(args[0]));
      return (query as (...rest: never[]) => unknown)(...args);
    };
    try {
      for (const credential of [
        'mk_',
        'mk_x',
        `${newRawKey()}x`,
        newRawKey().slice(0, -1),
        newRawKey().replace(/.$/, (last) => (last === 'a' ? 'b' : 'a')),
      ])
        expect((await me(credential)).status).toBe(401);
      expect(queries.filter((text) => text.includes('api_keys'))).toEqual([]);
      expect((await me(newRawKey())).status).toBe(401);
      expect(queries.filter((text) => text.includes('api_keys'))).not.toEqual([]);
    } finally {
      (pool as { query: unknown }).query = query;
    }
  });

  it('is stored nowhere: not in events, tables or log lines', async () => {
    const { raw_key } = (await create({ name: 'canary' }, { 'idempotency-key': 'canary' })).json;
    await me(raw_key);
    const tables = await database().query<{ name: string }>(
      `select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r' and has_table_privilege(oid, 'select')`,
    );
    let dump = server.logLines.join('');
    for (const { name } of tables) dump += JSON.stringify(await database().query(`select * from "${name}"`));
    expect(dump).toContain('ApiKeyIssued');
    expect(dump).toContain(raw_key.slice(0, 11));
    expect(dump).not.toContain(raw_key.slice(0, 20));
  });
});
