import { get, type IncomingMessage } from 'node:http';
import { createInterface } from 'node:readline';

import { v7 as uuidv7 } from 'uuid';

import { AgentFixture } from '../../../test/support/agent-fixture.ts';
import { startFeatureServer } from '../../../test/support/feature-server.ts';
import { agentFeatures } from '../../../test/support/features.ts';
import type { TestResponse, RequestOptions, TestServer } from '../../../test/support/http-server.ts';
import { masked } from './entries/history-item.ts';

let server: TestServer;
let agents: AgentFixture;

beforeAll(async () => {
  server = await startFeatureServer(agentFeatures);
  agents = new AgentFixture(server);
});
afterAll(() => server?.close());

const call = (method: string, path: string, options: RequestOptions = {}) =>
  server.request(method, `/api/v1/agents/${path}`, { credential: 'mk_acme', ...options });
const types = (answer: TestResponse) => answer.json.map((item: { type: string }) => item.type);

function expectProblem(answer: TestResponse, status: number, code: string): void {
  expect({ status: answer.status, code: answer.json?.code }).toEqual({ status, code });
}

it('describes in a sentence who did what and when, without secrets', async () => {
  const agentId = await agents.active('acme');
  await call('POST', `${agentId}/env`, { json: { key: 'TOKEN', value: 'canary-0815-secret', is_secret: true } });
  await call('POST', `${agentId}/stop`, { headers: { 'x-request-id': 'my-request' } });
  const history = await call('GET', `${agentId}/history`);
  expect(history.status).toBe(200);
  expect(types(history)).toEqual(await agents.types(agentId));
  const stored = (await agents.events(agentId)).at(-1);
  expect(history.json.at(-1)).toEqual({
    event_id: stored?.id,
    type: 'AgentStopRequested',
    version: 1,
    revision: stored?.revision,
    position: stored?.position,
    at: stored?.at,
    actor: { kind: 'api_key', id: 'mk_acme', name: 'mk_acme' },
    request_id: 'my-request',
    causation_id: null,
    summary: 'Asked the agent to stop',
    data: stored?.data,
  });
  expect(history.json.at(-2)).toMatchObject({
    summary: 'Set the secret TOKEN',
    data: { key: 'TOKEN', value: null, sealed: '••••••••', mask: 'cana••••••••' },
  });
  expect(history.text).not.toContain('0815');
});

it('returns pages, and events of one type', async () => {
  const agentId = await agents.asleep('acme');
  const all: string[] = [];
  let path: string | undefined = `/api/v1/agents/${agentId}/history?limit=3`;
  let pages = 0;
  while (path !== undefined) {
    const page: TestResponse = await server.request('GET', path, { credential: 'mk_acme' });
    all.push(...types(page));
    pages += 1;
    path = /<([^>]+)>; rel="next"/.exec(page.headers.get('link') ?? '')?.[1];
  }
  const expected = await agents.types(agentId);
  expect([all, pages]).toEqual([expected, Math.ceil(expected.length / 3)]);
  expect(types(await call('GET', `${agentId}/history?type=AgentSlept`))).toEqual(['AgentSlept']);
  expect(types(await call('GET', `${agentId}/history?type=AgentStopped`))).toEqual([]);
});

it('outlives the agent', async () => {
  const agentId = await agents.active('acme');
  await agents.says(agentId, { type: 'DeleteAgent', accountId: 'acme' });
  await agents.says(agentId, { type: 'RecordDeleted' });
  expect(types(await call('GET', `${agentId}/history`)).slice(-2)).toEqual(['AgentDeletionRequested', 'AgentDeleted']);
});

it('is hidden from other accounts, and requires the scope manage', async () => {
  const agentId = await agents.active('other');
  const answers = await Promise.all(
    [agentId, uuidv7(), 'none'].map((id) => call('GET', `${id}/history`, { headers: { 'x-request-id': 'same' } })),
  );
  expectProblem(answers[0] as TestResponse, 404, 'agent_not_found');
  expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
  expectProblem(await call('GET', `${agentId}/history`, { credential: 'mk_other_deploy' }), 403, 'insufficient_scope');
  expectProblem(await call('GET', `${agentId}/history`, { headers: { accept: 'text/event-stream' } }), 404, 'agent_not_found');
});

it('refuses an invalid page', async () => {
  const agentId = await agents.active('acme');
  for (const query of ['limit=0', 'limit=201', 'cursor=x', 'cursor=WyJhIl0', 'cursor=WzEuNV0', 'type=x;y', 'foo=1'])
    expectProblem(await call('GET', `${agentId}/history?${query}`), 400, 'invalid_request');
});

it('streams past events, then new ones, from where the reader left off', async () => {
  const agentId = await agents.active('acme');
  const { revision } = await agents.load(agentId);
  const headers = { authorization: 'Bearer mk_acme', accept: 'text/event-stream', 'last-event-id': String(revision - 1) };
  const response = await new Promise<IncomingMessage>((resolve) =>
    get(`${server.url}/api/v1/agents/${agentId}/history`, { headers }, resolve),
  );
  expect(response.headers['content-type']).toContain('text/event-stream');
  const told: string[] = [];
  for await (const line of createInterface({ input: response })) {
    if (!line.startsWith('data: ')) continue;
    told.push(JSON.parse(line.slice(6)).type);
    if (told.length === 1) await call('POST', `${agentId}/stop`);
    if (told.length === 2) break;
  }
  response.destroy();
  expect(told).toEqual(['DeploymentSucceeded', 'AgentStopRequested']);
});

it('streams from any revision or position, and ends when the agent is deleted', async () => {
  const agentId = await agents.active('acme');
  await agents.says(agentId, { type: 'DeleteAgent', accountId: 'acme' });
  await agents.says(agentId, { type: 'RecordDeleted' });
  const events = await agents.events(agentId);
  const follow = async (query: string, headers: Record<string, string> = {}) => {
    const { text } = await call('GET', `${agentId}/history?${query}`, { headers: { accept: 'text/event-stream', ...headers } });
    return [...text.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id));
  };
  const all = events.map(({ revision }) => revision);
  expect(await follow('')).toEqual(all);
  expect(await follow('after=3')).toEqual(all.slice(4));
  expect(await follow(`after=${events[2]?.position}`)).toEqual(all.slice(3));
  expect(await follow('', { 'last-event-id': '1' })).toEqual(all.slice(2));
  expect(await follow('type=AgentDeleted,AgentProvisioned')).toEqual([0, all.at(-1)]);
  expect(await follow('', { 'last-event-id': String(all.at(-1)) })).toEqual([]);
  expect(types(await call('GET', `${agentId}/history?after=${events.at(-2)?.position}`))).toEqual(['AgentDeleted']);
});

// This test is the last one that calls the server, because it stops it.
it('ends its streams when the service stops', async () => {
  const agentId = await agents.active('acme');
  const headers = { authorization: 'Bearer mk_acme', accept: 'text/event-stream' };
  // Without an agent the connection is closed after its response. The end of the server would wait 5 s for one that is kept.
  const response = await new Promise<IncomingMessage>((resolve) =>
    get(`${server.url}/api/v1/agents/${agentId}/history`, { headers, agent: false }, resolve),
  );
  const lines = createInterface({ input: response })[Symbol.asyncIterator]();
  await lines.next();
  await server.app.close();
  let last: IteratorResult<string>;
  do last = await lines.next();
  while (last.done !== true);
  expect(response.complete).toBe(true);
});

it('masks encrypted values at any depth', () => {
  const sealed = { v: 1, key: 1, iv: 'a', ct: 'b' };
  expect(masked({ a: sealed, b: [sealed, 1], c: { d: sealed, e: null }, f: { v: 1 } })).toEqual({
    a: '••••••••',
    b: ['••••••••', 1],
    c: { d: '••••••••', e: null },
    f: { v: 1 },
  });
});
