import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

import { Webhook } from 'standardwebhooks';

import { Database } from '../../src/postgres/database/database.ts';
import { Sagas } from '../../src/eventsourcing/sagas/saga.ts';
import { AgentFixture } from '../support/agent-fixture.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { subscribedFeatures } from '../support/features.ts';
import type { TestServer } from '../support/http-server.ts';
import { until } from '../support/until.ts';

interface Received {
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
}

let server: TestServer;
let agents: AgentFixture;
let receiver: Server;
let target: string;
const received: Received[] = [];
/** The statuses with which the receiver answers the next requests on a path; 200 after the last. */
const answers = new Map<string, number[]>();

beforeAll(async () => {
  receiver = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const path = request.url ?? '';
      received.push({ path, headers: request.headers, body: Buffer.concat(chunks).toString() });
      response.writeHead(answers.get(path)?.shift() ?? 200, { location: `${target}/elsewhere` }).end('ignored');
    });
  });
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
  target = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`;
  server = await startFeatureServer({ ...subscribedFeatures, environment: { MOORING_ALLOW_PRIVATE_TARGETS: '127.0.0.1' } });
  agents = new AgentFixture(server);
});
afterAll(async () => {
  await server?.close();
  receiver?.closeAllConnections();
  await new Promise((resolve) => receiver?.close(resolve));
});

const ask = (method: string, path: string, json?: object, credential = 'mk_acme') =>
  server.request(method, `/api/v1/subscriptions${path}`, { credential, ...(json === undefined ? {} : { json }) });
const database = () => server.app.get(Database, { strict: false });

interface Created {
  id: string;
  path: string;
  secret: string;
}

/** Subscribes a path of its own, so that tests do not see each other's deliveries. */
async function subscribe(more: object = {}, credential = 'mk_acme'): Promise<Created> {
  const path = `/${Math.random().toString(36).slice(2)}`;
  const { status, json } = await ask('POST', '', { url: `${target}${path}`, ...more }, credential);
  expect(status).toBe(201);
  return { id: json.id as string, path, secret: json.secret as string };
}

const arrived = ({ path }: { path: string }) => received.filter((each) => each.path === path);
const eventOf = ({ body }: Received) => JSON.parse(body) as { event_id: string; type: string; agent_id: string | null };
const typesAt = (subscription: Created) => arrived(subscription).map((each) => eventOf(each).type);

async function deliveriesOf({ id }: Created, query = ''): Promise<{ event_id: string; status: string; response_status: number | null }[]> {
  return (await ask('GET', `/${id}/deliveries${query}`)).json as { event_id: string; status: string; response_status: number | null }[];
}

/** Changes what is stored of the subscription's deliveries, as the time would, and wakes the saga. */
async function later({ id }: Created, change: string): Promise<void> {
  await database().query(change, [id]);
  server.app.get(Sagas, { strict: false }).wake('subscriptions', id);
}

describe('a subscription', () => {
  it('gets the events of its account, signed, as the history shows them', async () => {
    const subscription = await subscribe();
    const agentId = await agents.active('acme');
    await server.request('POST', `/api/v1/agents/${agentId}/env`, {
      credential: 'mk_acme',
      json: { key: 'TOKEN', value: 'canary-4711-secret', is_secret: true },
    });
    await until('the variable is told', () => typesAt(subscription).includes('VariableSet') || undefined);
    const history = await server.request('GET', `/api/v1/agents/${agentId}/history`, { credential: 'mk_acme' });
    const told = arrived(subscription).filter((each) => eventOf(each).agent_id === agentId);
    const items = history.json as { event_id: string }[];
    expect(told.map(({ body }) => JSON.parse(body))).toEqual(items.map((item) => expect.objectContaining(item)));
    for (const { body, headers } of told) {
      expect(() => new Webhook(subscription.secret).verify(body, headers as Record<string, string>)).not.toThrow();
      expect(headers['webhook-id']).toBe((JSON.parse(body) as { event_id: string }).event_id);
    }
    expect(JSON.stringify(told)).not.toContain('4711-secret');
  });

  it('gets the events of one agent in their order, also if attempts fail', async () => {
    const subscription = await subscribe();
    answers.set(subscription.path, [500, 200, 503]);
    const agentId = await agents.active('acme');
    const all = await agents.types(agentId);
    await until('all is told', () => new Set(typesAt(subscription)).size === new Set(all).size || undefined);
    const ids = arrived(subscription).map((each) => eventOf(each).event_id);
    const inOrder = ids.filter((id, n) => ids.indexOf(id) === n);
    const stored = (await agents.events(agentId)).map(({ id }) => id);
    expect(inOrder.filter((id) => stored.includes(id))).toEqual(stored);
    expect(ids.length).toBeGreaterThan(inOrder.length);
  });

  it('gets only the types and agents that it names', async () => {
    const mine = await agents.active('acme');
    const subscription = await subscribe({ types: ['AgentStop', 'VariableSet'], agent_ids: [mine] });
    const other = await agents.active('acme');
    for (const agentId of [other, mine]) await server.request('POST', `/api/v1/agents/${agentId}/stop`, { credential: 'mk_acme' });
    await until('the stop is told', () => arrived(subscription).length > 0 || undefined);
    expect(arrived(subscription).map((each) => [eventOf(each).type, eventOf(each).agent_id])).toEqual([['AgentStopRequested', mine]]);
  });

  it('gets nothing of other accounts', async () => {
    const theirs = await subscribe({}, 'mk_globex');
    const mine = await subscribe();
    const agentId = await agents.active('acme');
    await until('it is told', () => arrived(mine).length > 0 || undefined);
    const own = await agents.active('globex');
    await until('the other is told', () => arrived(theirs).length > 0 || undefined);
    expect(arrived(theirs).filter((each) => eventOf(each).agent_id === agentId)).toEqual([]);
    expect(arrived(theirs).some((each) => eventOf(each).agent_id === own)).toBe(true);
    for (const [method, path] of [
      ['GET', ''],
      ['PATCH', ''],
      ['DELETE', ''],
      ['GET', '/deliveries'],
      ['POST', '/deliveries/x/redeliver'],
    ] as const)
      expect((await ask(method, `/${mine.id}${path}`, method === 'PATCH' ? {} : undefined, 'mk_globex')).status).toBe(404);
  });

  it('is not found by what is no id of one', async () => {
    const { id } = await subscribe();
    for (const path of ['/%00', '/..', `/${'x'.repeat(3_000)}`, '/%F0%9F%98%80', `/${id}%00`, `/${id}/deliveries/%00/redeliver`])
      // A NUL in an address is refused before any route.
      expect((await ask(path.endsWith('redeliver') ? 'POST' : 'GET', path)).status).toBe(path.includes('%00') ? 400 : 404);
  });

  it('that was switched off gets afterwards what happened meanwhile', async () => {
    const subscription = await subscribe();
    await ask('PATCH', `/${subscription.id}`, { active: false });
    const agentId = await agents.active('acme');
    expect((await ask('GET', `/${subscription.id}`)).json).toMatchObject({ active: false });
    await ask('PATCH', `/${subscription.id}`, { active: true });
    const all = await agents.types(agentId);
    await until(
      'all is told',
      () => arrived(subscription).filter((each) => eventOf(each).agent_id === agentId).length >= all.length || undefined,
    );
  });

  it('that has ended gets no more events, and none of its data is kept', async () => {
    const subscription = await subscribe();
    expect((await ask('DELETE', `/${subscription.id}`)).status).toBe(204);
    await until('it is forgotten', async () => {
      const left = await database().query('select from subscription_cursors where subscription_id = $1', [subscription.id]);
      const keys = await database().query('select from data_keys where subject = $1 and wrapped is not null', [subscription.id]);
      return (left.length === 0 && keys.length === 0) || undefined;
    });
    expect((await ask('GET', `/${subscription.id}`)).status).toBe(404);
    expect((await ask('DELETE', `/${subscription.id}`)).status).toBe(404);
  });
});

describe('a delivery that fails', () => {
  it('fails after six attempts, and is sent again on request', async () => {
    const subscription = await subscribe({ types: ['AgentProvisioned'] });
    answers.set(subscription.path, [302, 500]);
    await agents.active('acme');
    await until('one attempt failed', async () => (await deliveriesOf(subscription))[0]?.response_status === 302 || undefined);
    await later(subscription, 'update event_deliveries set attempts = 5, next_attempt_at = now() where subscription_id = $1');
    const dead = await until('it is given up', async () => (await deliveriesOf(subscription, '?status=dead_letter'))[0]);
    expect(arrived({ path: '/elsewhere' })).toEqual([]);
    const audit = await server.request('GET', '/api/v1/audit?type=EventDeadLettered', { credential: 'mk_acme' });
    expect(audit.json).toMatchObject([{ data: { event_id: dead.event_id, attempts: 6, reason: 'the target answered 500' } }]);
    expect((await ask('POST', `/${subscription.id}/deliveries/${dead.event_id}/redeliver`)).status).toBe(202);
    await until('it is delivered', async () => (await deliveriesOf(subscription, '?status=delivered'))[0]);
    expect(arrived(subscription).map((each) => eventOf(each).event_id)).toEqual(Array(3).fill(dead.event_id));
    expect((await ask('POST', `/${subscription.id}/deliveries/nothing/redeliver`)).status).toBe(404);
  });

  it('delays no other agent, however many events of its own wait behind it', async () => {
    const subscription = await subscribe({ types: ['AgentProvisioned'] });
    answers.set(subscription.path, [500]);
    const refused = await agents.active('acme');
    await until('one attempt failed', async () => (await deliveriesOf(subscription))[0]?.response_status === 500 || undefined);
    await database().query(
      `with held as (update event_deliveries set next_attempt_at = now() + interval '1 day' where subscription_id = $1)
       insert into event_deliveries (subscription_id, event_id, position, agent_id, type, next_attempt_at)
       select $1, 'waits ' || n, lpad(n::text, 20, '9'), $2, 'AgentProvisioned', now() from generate_series(1, 600) n`,
      [subscription.id, refused],
    );
    const other = await agents.active('acme');
    await until(
      'the event of the other agent arrives',
      () => arrived(subscription).some((each) => eventOf(each).agent_id === other) || undefined,
    );
  });

  it('for three days switches the subscription off, with an event', async () => {
    const subscription = await subscribe({ types: ['AgentProvisioned'] });
    answers.set(subscription.path, [500, 500]);
    await agents.active('acme');
    await until('one attempt failed', async () => (await deliveriesOf(subscription))[0]?.response_status === 500 || undefined);
    await database().query(`update subscription_cursors set failing_since = now() - interval '73 hours' where subscription_id = $1`, [
      subscription.id,
    ]);
    await later(subscription, 'update event_deliveries set next_attempt_at = now() where subscription_id = $1');
    const { json } = await until('it is switched off', async () => {
      const answer = await ask('GET', `/${subscription.id}`);
      return answer.json.active === false ? answer : undefined;
    });
    expect(json.switched_off_at).not.toBeNull();
    const changed = await ask('PATCH', `/${subscription.id}`, { types: ['AgentProvisioned', 'AgentDeleted'] });
    expect(changed.json).toMatchObject({ active: false, switched_off_at: json.switched_off_at });
    expect((await ask('GET', '')).json).toContainEqual(changed.json);
    await ask('PATCH', `/${subscription.id}`, { active: true });
    await until('it is delivered', async () => (await deliveriesOf(subscription, '?status=delivered'))[0]);
    expect((await ask('GET', `/${subscription.id}`)).json).toMatchObject({ active: true, switched_off_at: null });
  });
});

describe('an address', () => {
  it.each([
    ['no address', 'nowhere'],
    ['with a line break', 'https://example.com/a\r\nb'],
    ['with a space before it', ' https://example.com/'],
    ['in the reserved half of IPv6', 'https://[::7f00:1]/'],
    ['without TLS', 'http://example.com/'],
    ['of this machine', 'https://localhost/'],
    ['of this machine, in IPv6', 'https://[::1]/'],
    ['of a private network', 'https://10.1.2.3/'],
    ['of a private network, as one number', 'https://167838211/'],
    ['of the metadata of clouds', 'https://169.254.169.254/latest'],
    ['with a password', 'https://user:canary-81@example.com/'],
  ])('%s is refused', async (_, url) => {
    const answer = await ask('POST', '', { url });
    expect(answer).toMatchObject({ status: 400, json: { code: 'invalid_request', errors: [{ field: 'url' }] } });
    expect(answer.text).not.toContain('canary');
  });

  it('can’t be removed, and accepts only the documented changes', async () => {
    const subscription = await subscribe();
    for (const change of [
      { url: null },
      { url: 'http://example.com/' },
      { active: null },
      { types: [] },
      { types: ['no such type'] },
      { secret: 'x' },
    ])
      expect((await ask('PATCH', `/${subscription.id}`, change)).status).toBe(400);
    expect((await ask('PATCH', `/${subscription.id}`, {})).json).toMatchObject({ active: true, types: null });
  });

  it('is shown to its owner, and is in no event and no table in clear', async () => {
    const subscription = await subscribe({ url: `${target}/canary-0817` });
    expect((await ask('GET', '')).text).toContain('canary-0817');
    expect((await ask('GET', `/${subscription.id}`)).json.secret).toBeUndefined();
    const audit = await server.request('GET', '/api/v1/audit?type=SubscriptionCreated', { credential: 'mk_acme' });
    expect(audit.text).not.toContain('canary-0817');
    const rows = await database().query('select row_to_json(s)::text as row from subscriptions_v1 s');
    expect(JSON.stringify(rows)).not.toContain('canary-0817');
  });

  it('needs the scope manage', async () => {
    expect((await ask('GET', '', undefined, 'mk_acme_deploy')).status).toBe(403);
  });
});
