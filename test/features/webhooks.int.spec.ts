import { randomUUID } from 'node:crypto';

import { Webhooks as Signer } from '@octokit/webhooks';

import { tokenlessConversation, webhookConversation } from '../../src/features/messages/index.ts';
import { EventStore, START } from '../../src/eventsourcing/event-store/event-store.ts';
import { operate } from '../support/log.ts';
import { startChatFixture, type ChatFixture } from '../support/chat-fixture.ts';
import { until } from '../support/until.ts';

let talk: ChatFixture;
let agentId: string;

beforeAll(async () => void (talk = await startChatFixture({})));
beforeEach(async () => void (agentId = await talk.deployed()));
afterAll(() => talk?.server.close());

const address = () => `/api/webhooks/${agentId}`;
const send = (body: string | Buffer, headers: Record<string, string> = {}, path = address()) =>
  talk.server.request('POST', path, { body, headers });
const token = async () => (await talk.ask('GET', `${address()}/token`)).json.token as string;
const withToken = async () => ({ 'x-service-webhook-token': await token() });
const accepted = { status: 202, json: { accepted: true, message_id: expect.any(String) } };

const outcomes = async () => {
  const events = await Promise.all([webhookConversation(agentId), tokenlessConversation(agentId)].map((id) => talk.events(id)));
  return events.flat().filter(({ type }) => type === 'MessageDelivered');
};
const delivered = (count: number) =>
  until(`${count} webhooks are delivered`, async () => ((await outcomes()).length === count ? true : undefined));
const problem = (status: number, code: string) => ({ status, json: { status, code, detail: expect.any(String) } });

describe('the token of an agent', () => {
  it('is shown to its owner, with an address that can be used as it is', async () => {
    const first = await talk.ask('GET', `${address()}/token`);
    expect(first).toMatchObject({
      status: 200,
      json: { token: expect.stringMatching(/^mwh_[0-9A-Za-z]{43}$/), header: 'X-Service-Webhook-Token' },
    });
    expect((await talk.ask('GET', `${address()}/token`)).json).toEqual(first.json);
    expect(first.json.url).toBe(`${talk.server.url}${address()}?token=${first.json.token}`);
    expect((await fetch(first.json.url as string, { method: 'POST', body: 'hello' })).status).toBe(202);
  });

  it('is replaced by a new one, and the old one ends', async () => {
    const old = await withToken();
    const { json } = await talk.ask('POST', `${address()}/token/rotate`);
    expect(json.token).not.toBe(old['x-service-webhook-token']);
    expect(await send('x', old)).toMatchObject(problem(401, 'unauthenticated'));
    expect(await send('x', { 'x-service-webhook-token': json.token })).toMatchObject(accepted);
  });

  it('is not shown to others, nor to keys without the scope manage', async () => {
    for (const [method, path] of [
      ['GET', `${address()}/token`],
      ['POST', `${address()}/token/rotate`],
    ] as const) {
      expect(await talk.ask(method, path, undefined, 'mk_other')).toMatchObject(problem(404, 'agent_not_found'));
      expect(await talk.ask(method, path, undefined, 'mk_acme_deploy')).toMatchObject(problem(403, 'insufficient_scope'));
    }
  });

  it('is in no event, no table and no line of the log', async () => {
    const secret = await token();
    await send('hello', {}, `${address()}?token=${secret}`);
    await send('hello', {}, `${address()}?token=${secret.slice(0, -1)}`);
    await delivered(1);
    for await (const events of talk.server.app.get(EventStore, { strict: false }).readAll(START, { eventClass: 'core' }))
      expect(JSON.stringify(events)).not.toContain(secret.slice(4, 40));
    expect(talk.server.logLines.join('\n')).not.toContain(secret.slice(4, 40));
    const tables = await operate(
      talk.server.databaseUrl,
      `select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname not in ('pg_catalog', 'information_schema')`,
    );
    expect(tables.length).toBeGreaterThan(10);
    for (const { name } of tables) {
      const [found] = await operate(talk.server.databaseUrl, `select count(*) from ${String(name)} t where t::text like $1`, [
        `%${secret.slice(4, 40)}%`,
      ]);
      expect([name, found?.count]).toEqual([name, '0']);
    }
  });
});

describe('a webhook', () => {
  it('is accepted at once and delivered, also to an agent that sleeps', async () => {
    expect((await talk.ask('POST', `/api/agents/${agentId}/sleep`)).json.status).toBe('sleeping');
    const answer = await send('{"a": 1}', { ...(await withToken()), 'content-type': 'application/json' });
    expect(answer).toMatchObject(accepted);
    await delivered(1);
    expect(await talk.messages(agentId)).toMatchObject([
      { id: answer.json.message_id, channel: 'webhook', payload: '{"a": 1}', content_type: 'application/json' },
    ]);
  });

  it('that GitHub signed can be verified by the agent', async () => {
    const signer = new Signer({ secret: 'shared by GitHub and the agent' });
    const body = JSON.stringify({ action: 'opened', title: 'Ahoj €, “quotes” and\ttabs', number: 1e21 }, null, 2);
    const signature = await signer.sign(body);
    await send(body, {
      'content-type': 'application/json',
      'x-hub-signature-256': signature,
      'x-github-event': 'issues',
      'x-github-delivery': randomUUID(),
    });
    await delivered(1);
    const [message] = await talk.messages(agentId);
    expect(await signer.verify(message?.payload as string, message?.headers['x-hub-signature-256'] ?? '')).toBe(true);
    expect(message?.headers['x-github-event']).toBe('issues');
  });

  it('has every header of its sender and the address that it called, but no cookie and not the agent’s token', async () => {
    const signed = { authorization: 'Bearer of the sender', 'linear-signature': 'ab', 'svix-id': 'msg_1', 'user-agent': 'a sender' };
    await send('x', { ...signed, cookie: 'canary', ...(await withToken()) });
    await delivered(1);
    const [message] = await talk.messages(agentId);
    expect(message?.headers).toMatchObject(signed);
    expect(message?.url).toBe(`${talk.server.url}/api/webhooks/${agentId}`);
    expect(JSON.stringify(message)).not.toMatch(/canary|mwh_/);
  });

  it.each([
    ['no type', {}, Buffer.from('x')],
    ['nothing at all', {}, ''],
    ['a form', { 'content-type': 'application/x-www-form-urlencoded' }, 'payload=%7B%7D'],
    ['JSON that is none', { 'content-type': 'application/json' }, '{'],
  ])('may bring %s', async (_, headers, body) => {
    expect(await send(body, headers)).toMatchObject(accepted);
    await delivered(1);
    expect(await talk.messages(agentId)).toMatchObject([{ payload: body.toString() }]);
  });

  it('of more than a megabyte is refused', async () => {
    expect(await send(Buffer.alloc(1_048_577, 'x'))).toMatchObject(problem(413, 'payload_too_large'));
    expect(await send(Buffer.alloc(1_048_576, 'x'))).toMatchObject(accepted);
  });

  it('with a wrong token, or two that differ, is refused and not queued', async () => {
    const right = await token();
    const wrong = `mwh_${'x'.repeat(43)}`;
    expect(await send('x', { 'x-service-webhook-token': wrong })).toMatchObject(problem(401, 'unauthenticated'));
    expect(await send('x', {}, `${address()}?token=${wrong}`)).toMatchObject(problem(401, 'unauthenticated'));
    expect(await send('x', { 'x-service-webhook-token': right }, `${address()}?token=${wrong}`)).toMatchObject(
      problem(401, 'unauthenticated'),
    );
    expect(await send('x', { 'x-service-webhook-token': right }, `${address()}?token=${right}`)).toMatchObject(accepted);
    await delivered(1);
  });

  it('to an agent that is unknown, deleted or misspelt is a 404, with and without a token', async () => {
    const gone = await talk.fixture.created('acme');
    await talk.ask('DELETE', `/api/agents/${gone}`);
    for (const id of [randomUUID(), gone, 'nonsense']) {
      expect(await send('x', {}, `/api/webhooks/${id}`)).toMatchObject(problem(404, 'agent_not_found'));
      expect(await send('x', {}, `/api/webhooks/${id}?token=mwh_x`)).toMatchObject(problem(404, 'agent_not_found'));
    }
  });

  it('without a token gets a notice that such calls will end', async () => {
    const open = await send('x');
    expect(open).toMatchObject(accepted);
    expect(open.headers.get('deprecation')).toMatch(/^@\d+$/);
    expect(Date.parse(open.headers.get('sunset') ?? '')).toBeGreaterThan(Date.parse('2026-11-22'));
    const closed = await send('x', await withToken());
    expect([closed.headers.get('deprecation'), closed.headers.get('sunset')]).toEqual([null, null]);
  });

  it('with an Idempotency-Key is delivered once, and every repeat gets the first answer', async () => {
    const headers = { ...(await withToken()), 'idempotency-key': randomUUID() };
    const first = await send('once', headers);
    const again = await send('once', headers);
    expect([again.status, again.json, again.headers.get('idempotency-replayed')]).toEqual([202, first.json, 'true']);
    expect(await send('another', headers)).toMatchObject(problem(422, 'idempotency_key_reused'));
    await delivered(1);
  });

  it('is neither suppressed nor answered by one of a sender without the token, who used the same Idempotency-Key before', async () => {
    const key = { 'idempotency-key': 'order-1001' };
    const open = await send('from a stranger', key);
    const closed = await send('from the owner', { ...(await withToken()), ...key });
    expect([open, closed]).toMatchObject([accepted, accepted]);
    expect(closed.headers.get('idempotency-replayed')).toBeNull();
    expect(closed.json.message_id).not.toBe(open.json.message_id);
    await delivered(2);
  });

  it.each([
    ['GitHub', { 'x-github-delivery': 'd-1' }, '{}', {}, { 'x-github-delivery': 'd-2' }],
    ['Standard Webhooks', { 'webhook-id': 'msg_1' }, '{}', {}, { 'webhook-id': 'msg_2' }],
    ['Stripe', { 'stripe-signature': 't=1,v1=a' }, '{"id":"evt_1"}', { 'stripe-signature': 't=2,v1=b' }, {}],
    ['Slack', { 'x-slack-signature': 'v0=a' }, '{"event_id":"Ev1"}', { 'x-slack-retry-num': '1' }, {}],
  ])('that %s sends again is one delivery, with the same answer', async (_, headers, body, changed, other) => {
    const first = await send(body, headers);
    const again = await Promise.all([send(body, { ...headers, ...changed }), send(body, { ...headers, ...changed })]);
    expect(again.map(({ status, json }) => [status, json])).toEqual([
      [202, first.json],
      [202, first.json],
    ]);
    expect((await send('{"id":"evt_2","event_id":"Ev2"}', { ...headers, ...other })).json).not.toEqual(first.json);
    await delivered(2);
  });
});

describe('the budget of a sender', () => {
  it('is thirty webhooks a minute for each agent and caller', async () => {
    const headers = await withToken();
    const answers = [];
    for (let n = 0; n < 31; n += 1) answers.push(await send(`webhook ${n}`, headers));
    expect(answers.map(({ status }) => status)).toEqual([...Array.from({ length: 30 }, () => 202), 429]);
    const last = answers.at(-1);
    expect(last).toMatchObject(problem(429, 'rate_limited'));
    expect(last?.headers.get('retry-after')).toMatch(/^[1-9]\d?$/);
    expect((await send('without the token', {})).status).toBe(202);
    await delivered(31);
    expect((await talk.messages(agentId)).map(({ payload }) => payload)).not.toContain('webhook 30');
  });

  it('is also drawn on by chats, which it never refuses', async () => {
    for (let n = 0; n < 30; n += 1) expect((await talk.chat(`chat ${n}`, undefined, agentId)).status).toBe(200);
    expect(await send('x', await withToken())).toMatchObject(problem(429, 'rate_limited'));
    expect((await talk.chat('one more', undefined, agentId)).status).toBe(200);
  });
});

describe('a service that accepts no webhook without a token', () => {
  it('answers 401', async () => {
    const strict = await startChatFixture({ MOORING_TOKENLESS_WEBHOOKS: 'off' });
    try {
      const path = `/api/webhooks/${strict.agentId}`;
      expect(await strict.server.request('POST', path, { body: 'x' })).toMatchObject(problem(401, 'unauthenticated'));
      const { json } = await strict.ask('GET', `${path}/token`);
      expect((await strict.server.request('POST', `${path}?token=${json.token}`, { body: 'x' })).status).toBe(202);
    } finally {
      await strict.server.close();
    }
  });
});

describe('the deliveries of an agent', () => {
  const list = (query = '', credential = 'mk_acme') => talk.ask('GET', `/api/agents/${agentId}/deliveries${query}`, undefined, credential);
  const redeliver = (id: string, credential = 'mk_acme') =>
    talk.ask('POST', `/api/agents/${agentId}/deliveries/${id}/redeliver`, undefined, credential);

  it('are listed with what became of them, the latest first', async () => {
    const [first, second] = [await send('one'), await send('two')];
    await delivered(2);
    const { json } = await list();
    expect(json).toMatchObject([
      {
        id: second.json.message_id,
        status: 'delivered',
        channel: 'webhook',
        attempts: 0,
        message: null,
        conversationId: tokenlessConversation(agentId),
      },
      { id: first.json.message_id, status: 'delivered' },
    ]);
    expect((await list('?status=dead_letter')).json).toEqual([]);
    expect(await list('?status=nonsense')).toMatchObject(problem(400, 'invalid_request'));
    const page = await list('?limit=1');
    expect(page.json).toHaveLength(1);
    const next = /<([^>]+)>; rel="next"/.exec(page.headers.get('link') ?? '')?.[1] ?? '';
    expect((await talk.ask('GET', next)).json).toMatchObject([{ id: first.json.message_id }]);
  });

  it('that wait for another attempt show its time and why the last one failed', async () => {
    await send('fail');
    const waiting = await until('an attempt has failed', async () => {
      const { json } = await list('?status=pending');
      return json[0]?.attempts > 0 ? json[0] : undefined;
    });
    expect(waiting.message).toMatch(/^POST \/messages on port \d+ answered 500/);
    expect(Date.parse(waiting.nextAttemptAt)).toBeGreaterThan(Date.parse(waiting.acceptedAt));
    const { json: lines } = await talk.ask('GET', `/api/agents/${agentId}/logs`);
    expect(lines.filter(({ source }: { source: string }) => source === 'webhook')).toMatchObject([
      { level: 'info', message: 'Sent the agent a message (webhook).' },
      { level: 'warning', message: expect.stringContaining('POST /messages on port') },
    ]);
  });

  it('can be made again, with the same id', async () => {
    const { json } = await send('again');
    await delivered(1);
    expect(await redeliver(json.message_id)).toMatchObject({ status: 202, json: { accepted: true, message_id: json.message_id } });
    await delivered(2);
    expect((await talk.messages(agentId)).map(({ id }) => id)).toEqual([json.message_id, json.message_id]);
    expect((await list()).json).toMatchObject([{ id: json.message_id, status: 'delivered' }]);
  });

  it('are known only to the agent’s account', async () => {
    const { json } = await send('x');
    expect(await list('', 'mk_other')).toMatchObject(problem(404, 'agent_not_found'));
    expect(await redeliver(json.message_id, 'mk_other')).toMatchObject(problem(404, 'agent_not_found'));
    expect(await redeliver(randomUUID())).toMatchObject(problem(404, 'not_found'));
    const otherAgent = await talk.deployed();
    const elsewhere = await talk.ask('POST', `/api/agents/${otherAgent}/deliveries/${json.message_id}/redeliver`);
    expect(elsewhere).toMatchObject(problem(404, 'not_found'));
  });
});
