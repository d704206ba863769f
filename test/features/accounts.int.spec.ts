import { CommandBus } from '@nestjs/cqrs';

import {
  AssignPlan,
  accountEvents,
  OpenAccount,
  ReleaseComputerSeat,
  ReleaseSeat,
  TakeComputerSeat,
  TakeSeat,
} from '../../src/features/accounts/index.ts';
import { AccountsModule } from '../../src/features/accounts/accounts.module.ts';
import { apiKeyEvents } from '../../src/features/api-keys/index.ts';
import { ApiKeysModule } from '../../src/features/api-keys/api-keys.module.ts';
import { CredentialsModule } from '../../src/features/credentials.module.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import type { TestServer } from '../support/http-server.ts';
import { Database } from '../../src/postgres/database/database.ts';
import { EventStore, type StoredEvent } from '../../src/eventsourcing/event-store/event-store.ts';
import { systemContext } from '../../src/kernel/context/command-context.ts';
import { LoginLimiter } from '../../src/http/limits/login-limiter.ts';

const password = 'canary-password-1';

function start(environment = {}): Promise<TestServer> {
  return startFeatureServer({
    modules: [AccountsModule, ApiKeysModule],
    definitions: [...Object.values(accountEvents), ...Object.values(apiKeyEvents)],
    credentials: CredentialsModule,
    environment,
  });
}

async function openAccount(
  server: TestServer,
  email: string,
  role: 'admin' | 'member' = 'member',
  seed: string | null = null,
): Promise<string> {
  const account = { email, password, name: 'Ann', role };
  return (await server.app.get(CommandBus).execute(new OpenAccount(systemContext('test', null), account, seed))).account_id;
}

/** Signs in without using up the limit of an address that a test is about. */
async function signIn(server: TestServer, email: string): Promise<string> {
  await server.app.get(Database, { strict: false }).query('delete from rate_limits');
  const answer = await server.request('POST', '/api/auth/login', { json: { email, password } });
  expect(answer.status).toBe(200);
  return answer.json.session_token as string;
}

async function eventsOf(server: TestServer, stream: string): Promise<StoredEvent[]> {
  const events: StoredEvent[] = [];
  for await (const event of server.app.get(EventStore, { strict: false }).readStream(stream)) events.push(event);
  return events;
}

let server: TestServer;
let admin: string;
beforeAll(async () => {
  server = await start();
  await openAccount(server, 'root@example.com', 'admin');
  admin = await signIn(server, 'root@example.com');
});
afterAll(() => server?.close());

describe('registration', () => {
  it('is closed unless the operator opens it', async () => {
    const answer = await server.request('POST', '/api/auth/register', { json: { email: 'a@example.com', password, name: 'A' } });
    expect([answer.status, answer.json.code]).toEqual([403, 'registration_closed']);
  });

  it('opens ten accounts an hour for one address, and goes on for others', async () => {
    const open = await start({ MOORING_OPEN_REGISTRATION: 'true', MOORING_TRUSTED_PROXIES: '127.0.0.1' });
    try {
      const register = (n: number, from: string) =>
        open.request('POST', '/api/auth/register', {
          json: { email: `a${n}@example.com`, password, name: 'A' },
          headers: { 'x-forwarded-for': from },
        });
      const statuses = [];
      for (let n = 0; n < 10; n += 1) statuses.push((await register(n, `2001:db8:1:${n}::1`)).status);
      expect(statuses).toEqual(Array.from({ length: 10 }, () => 201));
      const refused = await register(10, '2001:db8:1:ffff::1');
      expect([refused.status, refused.json.code]).toEqual([429, 'rate_limited']);
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(3_000);
      expect((await register(20, '203.0.113.7')).status).toBe(201);
    } finally {
      await open.close();
    }
  });

  it('opens an account that can sign in at once, and only one for an address', async () => {
    const open = await start({ MOORING_OPEN_REGISTRATION: 'true' });
    try {
      const register = (email: string, body = {}) =>
        open.request('POST', '/api/auth/register', { json: { email, password, name: 'A', ...body } });
      const [first, ...others] = (await Promise.all(Array.from({ length: 5 }, () => register('Ann@Example.com')))).sort(
        (a, b) => a.status - b.status,
      );
      expect(first!.status).toBe(201);
      expect(first!.json).toMatchObject({ email: 'ann@example.com', name: 'A', role: 'member', plan: null, payment_method: false });
      expect(others.map(({ status, json }) => [status, json.code])).toEqual(others.map(() => [409, 'account_exists']));
      const token = await signIn(open, ' ANN@example.com');
      expect((await open.request('GET', '/api/auth/me', { credential: token })).json).toEqual(first!.json);
      expect((await register('b@example.com', { password: 'too short' })).json.errors).toEqual([
        { field: 'password', message: expect.any(String) },
      ]);
      expect((await register('b@example.com', { role: 'admin' })).json.errors).toEqual([
        { field: 'role', message: 'is not a known field' },
      ]);
      expect((await register('not an address')).status).toBe(400);
    } finally {
      await open.close();
    }
  });
});

describe('an account whose opening was interrupted', () => {
  it('is completed by a repeated request', async () => {
    const seed = '0b9de2a4-6f35-4d6b-8f5c-0f3c55a5f001';
    const first = await openAccount(server, 'seeded@example.com', 'member', seed);
    expect(await openAccount(server, 'seeded@example.com', 'member', seed)).toBe(first);
    expect(await eventsOf(server, `account-${first}`)).toHaveLength(1);
  });

  it('is completed by another request once the first can no longer be running', async () => {
    const database = server.app.get(Database, { strict: false });
    await database.query(`insert into account_credentials (account_id, email, password) values ('half', 'half@example.com', 'x')`);
    await expect(openAccount(server, 'half@example.com')).rejects.toMatchObject({ code: 'account_exists' });
    await database.query(`update account_credentials set created_at = now() - interval '2 minutes' where account_id = 'half'`);
    expect(await openAccount(server, 'half@example.com')).toBe('half');
    await signIn(server, 'half@example.com');
    await database.query(`update account_credentials set created_at = now() - interval '2 minutes' where account_id = 'half'`);
    await expect(openAccount(server, 'half@example.com')).rejects.toMatchObject({ code: 'account_exists' });
  });
});

describe('a session', () => {
  it('is refused with the same message for an unknown address and a wrong password', async () => {
    await server.app.get(Database, { strict: false }).query('delete from rate_limits');
    const login = (email: string, given: string) => server.request('POST', '/api/auth/login', { json: { email, password: given } });
    const [unknown, wrong] = [await login('nobody@example.com', password), await login('root@example.com', 'wrong')];
    expect([unknown.status, wrong.status]).toEqual([401, 401]);
    expect({ ...unknown.json, request_id: '' }).toEqual({ ...wrong.json, request_id: '' });
  });

  it('is new at every login, and ends immediately at logout', async () => {
    const [one, other] = [await signIn(server, 'root@example.com'), await signIn(server, 'root@example.com')];
    expect(one).toMatch(/^ms_[0-9A-Za-z]{43}$/);
    expect(one).not.toBe(other);
    expect((await server.request('POST', '/api/auth/logout', { credential: one })).status).toBe(204);
    expect((await server.request('GET', '/api/auth/me', { credential: one })).status).toBe(401);
    expect((await server.request('GET', '/api/auth/me', { credential: other })).status).toBe(200);
  });

  it.each([
    ['30 days after it began', `expires_at = now() - interval '1 second'`],
    ['7 days after it was last used', `last_used_at = now() - interval '7 days 1 second'`],
  ])('ends %s', async (_, change) => {
    const token = await signIn(server, 'root@example.com');
    const database = server.app.get(Database, { strict: false });
    await database.query(`update account_sessions set ${change} where token_hash = sha256($1::text::bytea)`, [token]);
    expect((await server.request('GET', '/api/auth/me', { credential: token })).status).toBe(401);
  });

  it('may be requested at most 10 times a minute from one address, or from one IPv6 network', async () => {
    const database = server.app.get(Database, { strict: false });
    await database.query('delete from rate_limits');
    const login = (email: string) => server.request('POST', '/api/auth/login', { json: { email, password: 'wrong password' } });
    const answers = await Promise.all(Array.from({ length: 12 }, (_, index) => login(`x${index}@example.com`)));
    expect(answers.filter(({ status }) => status === 401)).toHaveLength(10);
    const refused = answers.find(({ status }) => status === 429);
    expect(refused?.json.code).toBe('rate_limited');
    expect(Number(refused?.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(Number(refused?.headers.get('retry-after'))).toBeLessThanOrEqual(60);
    const limiter = server.app.get(LoginLimiter, { strict: false });
    const tries = Array.from({ length: 12 }, (_, index) => limiter.consume(`2001:db8:1:2::${index + 1}`, `y${index}@example.com`));
    expect((await Promise.allSettled(tries)).filter(({ status }) => status === 'rejected')).toHaveLength(2);
    await database.query('delete from rate_limits');
  });

  it('is not denied to an account’s owner by wrong passwords from other addresses', async () => {
    const limiter = server.app.get(LoginLimiter, { strict: false });
    const email = 'root@example.com';
    const login = () => server.request('POST', '/api/auth/login', { json: { email, password } });
    expect((await login()).status).toBe(200);
    const fromOneAddress = Array.from({ length: 20 }, () => limiter.consume('10.9.9.9', email));
    expect((await Promise.allSettled(fromOneAddress)).filter(({ status }) => status === 'fulfilled')).toHaveLength(10);
    await limiter.consume('10.8.8.8', email);
    const fromEverywhere = Array.from({ length: 120 }, (_, index) => limiter.consume(`10.1.1.${index}`, email));
    expect((await Promise.allSettled(fromEverywhere)).some(({ status }) => status === 'rejected')).toBe(true);
    await expect(limiter.consume('10.7.7.7', email)).rejects.toMatchObject({ code: 'rate_limited' });
    expect((await login()).status).toBe(200);
    await server.app.get(Database, { strict: false }).query('delete from rate_limits');
  });

  it('is given to the owner at a new address at the time that is told, while addresses without number attack', async () => {
    const database = server.app.get(Database, { strict: false });
    await database.query('delete from rate_limits');
    const limiter = server.app.get(LoginLimiter, { strict: false });
    const email = 'root@example.com';
    const login = () => server.request('POST', '/api/auth/login', { json: { email, password } });
    const attack = () => Promise.allSettled(Array.from({ length: 200 }, (_, index) => limiter.consume(`10.2.3.${index}`, email)));
    await attack();
    const told = await login();
    expect([told.status, told.json.code]).toEqual([429, 'rate_limited']);
    const seconds = Number(told.headers.get('retry-after'));
    expect(seconds).toBeGreaterThan(0);
    expect(seconds).toBeLessThanOrEqual(201 * 0.6 + 1);
    await attack();
    // The time that was told passes.
    await database.query(`update rate_limits set expire = expire - $1 where key like 'login-place:%' or key like 'login-queue:%'`, [
      seconds * 1_000,
    ]);
    await attack();
    expect((await login()).status).toBe(200);
    await database.query('delete from rate_limits');
  });

  it('is counted once for all addresses of an IPv6 site', async () => {
    const database = server.app.get(Database, { strict: false });
    await database.query('delete from rate_limits');
    const limiter = server.app.get(LoginLimiter, { strict: false });
    const email = 'root@example.com';
    const site = Array.from({ length: 100 }, (_, index) => limiter.consume(`2001:db8:9:${index.toString(16)}::1`, email));
    await Promise.allSettled(site);
    const places = await database.query(`select key from rate_limits where key like 'login-place:%'`);
    expect(places.length).toBeLessThanOrEqual(1);
    await database.query('delete from rate_limits');
  });
});

describe('an administrator', () => {
  it('opens accounts, lists them page by page, and assigns plans', async () => {
    const create = (email: string, headers = {}) =>
      server.request('POST', '/api/admin/accounts', { credential: admin, headers, json: { email, password, name: 'Bob', role: 'member' } });
    const made = await create('bob@example.com', { 'idempotency-key': 'bob' });
    expect(made.status).toBe(201);
    expect((await create('bob@example.com', { 'idempotency-key': 'bob' })).json).toEqual(made.json);
    expect((await create('bob@example.com')).json.code).toBe('account_exists');

    const assigned = await server.request('PUT', `/api/admin/accounts/${made.json.account_id}/plan`, {
      credential: admin,
      json: { plan: 'team', seats: 10, payment_method: true },
    });
    expect(assigned.status).toBe(200);
    expect(assigned.headers.get('x-event-position')).toMatch(/^\d{20}$/);
    expect(assigned.json).toMatchObject({
      plan: { name: 'team', seats: 10, seats_used: 0, computers: 20, computers_used: 0 },
      payment_method: true,
    });

    const seen: string[] = [];
    let path: string | undefined = '/api/admin/accounts?limit=2';
    for (let pages = 0; path !== undefined && pages < 20; pages += 1) {
      const page = await server.request('GET', path, { credential: admin });
      seen.push(...page.json.map((account: { account_id: string }) => account.account_id));
      path = /<(.+)>; rel="next"/.exec(page.headers.get('link') ?? '')?.[1];
    }
    const all = (await server.request('GET', '/api/admin/accounts', { credential: admin })).json;
    expect(seen).toEqual(all.map((account: { account_id: string }) => account.account_id));
    expect(all[0].account_id).toBe(made.json.account_id);
  });

  it('gets an error for bad plans and unknown accounts', async () => {
    const put = (id: string, json: unknown) => server.request('PUT', `/api/admin/accounts/${id}/plan`, { credential: admin, json });
    expect((await put('nobody', { plan: 'x', seats: 1, payment_method: true })).json.code).toBe('account_not_found');
    const bad = await put('nobody', { seats: 100_001, payment_method: 'yes', price: 1 });
    expect(bad.json.errors.map((error: { field: string }) => error.field).sort()).toEqual(
      ['payment_method', 'plan', 'plan', 'price', 'seats'].sort(),
    );
    expect((await server.request('GET', '/api/admin/accounts?cursor=xyz', { credential: admin })).status).toBe(400);
    const made = Buffer.from('["not a time","x"]').toString('base64url');
    expect((await server.request('GET', `/api/admin/accounts?cursor=${made}`, { credential: admin })).status).toBe(400);
  });

  it('is a caller with that role and a session', async () => {
    await openAccount(server, 'member@example.com');
    const member = await signIn(server, 'member@example.com');
    expect((await server.request('GET', '/api/admin/accounts', { credential: member })).status).toBe(403);
    const key = (await server.request('POST', '/api/v1/keys', { credential: admin, json: { name: 'all' } })).json.raw_key;
    expect((await server.request('GET', '/api/admin/accounts', { credential: key })).status).toBe(401);
    expect((await server.request('GET', '/api/auth/me', { credential: key })).json.role).toBe('admin');
  });
});

describe('seats', () => {
  it('go to exactly as many agents as the plan has, however many are requested at once', async () => {
    const accountId = await openAccount(server, 'seats@example.com');
    const context = systemContext('test', accountId);
    const commands = server.app.get(CommandBus);
    await commands.execute(new AssignPlan(context, accountId, { name: 'team', seats: 10, paymentMethod: true }));
    const results = await Promise.allSettled(
      Array.from({ length: 50 }, (_, index) => commands.execute(new TakeSeat(context, accountId, `agent-${index}`, null))),
    );
    const refused = results.flatMap((result) => (result.status === 'rejected' ? [result.reason.code] : []));
    expect(refused).toEqual(Array.from({ length: 40 }, () => 'seat_limit'));
    const events = await eventsOf(server, `account-${accountId}`);
    expect(events.filter(({ type }) => type === 'SeatTaken')).toHaveLength(10);
    expect(events.filter(({ type }) => type === 'FirstMonthCharged')).toHaveLength(10);

    const [first] = events.filter(({ type }) => type === 'SeatTaken');
    await commands.execute(new ReleaseSeat(context, accountId, first!.data.agent_id as string));
    await commands.execute(new TakeSeat(context, accountId, 'one-more', null));
    const me = await server.request('GET', '/api/auth/me', {
      credential: await signIn(server, 'seats@example.com'),
      headers: { 'x-min-event-position': context.writtenUpTo! },
    });
    expect(me.json.plan).toEqual({ name: 'team', seats: 10, seats_used: 10, computers: 20, computers_used: 0 });
  });

  it('one external id gets one seat, however many requests come at once, and all get the same agent', async () => {
    const accountId = await openAccount(server, 'external@example.com');
    const context = systemContext('test', accountId);
    const commands = server.app.get(CommandBus);
    await commands.execute(new AssignPlan(context, accountId, { name: 'team', seats: 10, paymentMethod: true }));
    const owners = await Promise.all(
      Array.from({ length: 20 }, (_, index) => commands.execute(new TakeSeat(context, accountId, `agent-${index}`, 'user-7'))),
    );
    expect(new Set(owners).size).toBe(1);
    expect((await eventsOf(server, `account-${accountId}`)).filter(({ type }) => type === 'SeatTaken')).toHaveLength(1);
  });
});

describe('seats of computers', () => {
  it('get the same computer, for any number of requests for one end user at the same time', async () => {
    const accountId = await openAccount(server, 'computers@example.com');
    const context = systemContext('test', accountId);
    const commands = server.app.get(CommandBus);
    const credential = await signIn(server, 'computers@example.com');
    const plan = await server.request('PUT', `/api/admin/accounts/${accountId}/plan`, {
      credential: admin,
      json: { plan: 'team', seats: 0, payment_method: true, computers: 1 },
    });
    expect(plan.json.plan).toEqual({ name: 'team', seats: 0, seats_used: 0, computers: 1, computers_used: 0 });
    const take = (computerId: string, endUserId: string) =>
      commands.execute(new TakeComputerSeat(context, accountId, computerId, endUserId));
    const owners = await Promise.all(Array.from({ length: 100 }, (_, index) => take(`computer-${index}`, 'ana')));
    expect(new Set(owners).size).toBe(1);
    await expect(take('another', 'bob')).rejects.toMatchObject({ code: 'computer_limit' });
    const used = async () => {
      const headers = { 'x-min-event-position': context.writtenUpTo! };
      return (await server.request('GET', '/api/auth/me', { credential, headers })).json.plan.computers_used;
    };
    expect(await used()).toBe(1);
    await commands.execute(new ReleaseComputerSeat(context, accountId, owners[0]!));
    expect(await used()).toBe(0);
    expect(await take('another', 'bob')).toBe('another');
    const events = (await eventsOf(server, `account-${accountId}`)).filter(({ type }) => type.startsWith('ComputerSeat'));
    expect(events.map(({ type }) => type)).toEqual(['ComputerSeatTaken', 'ComputerSeatReleased', 'ComputerSeatTaken']);
  });
});

describe('passwords, tokens and addresses', () => {
  it('are in no event and no log line, and no password or token is in any table', async () => {
    const token = await signIn(server, 'root@example.com');
    const database = server.app.get(Database, { strict: false });
    const tables = await database.query<{ name: string }>(
      `select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r' and has_table_privilege(oid, 'select')`,
    );
    const dump: Record<string, string> = {};
    for (const { name } of tables) dump[name] = JSON.stringify(await database.query(`select * from "${name}"`));
    expect(dump.es_event).toContain('AccountOpened');
    expect(dump.es_event).not.toContain('@example.com');
    const everything = `${Object.values(dump).join('')}${server.logLines.join('')}`;
    expect(everything).not.toContain(password);
    expect(everything).not.toContain(token.slice(3));
    expect(server.logLines.join('')).not.toContain('@example.com');
  });
});
