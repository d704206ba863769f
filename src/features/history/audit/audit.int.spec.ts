import { v7 as uuidv7 } from 'uuid';

import { AgentFixture } from '../../../../test/support/agent-fixture.ts';
import { startFeatureServer } from '../../../../test/support/feature-server.ts';
import { agentFeatures } from '../../../../test/support/features.ts';
import type { TestResponse, RequestOptions, TestServer } from '../../../../test/support/http-server.ts';
import { operate } from '../../../../test/support/log.ts';
import { agentStream } from '../../agents/index.ts';
import { Agents } from '../../agents/services.ts';
import { conversationDecider, conversationEvents } from '../../messages/index.ts';
import { Aggregates } from '../../../eventsourcing/aggregates/aggregates.ts';
import { EventStore } from '../../../eventsourcing/event-store/event-store.ts';
import { encodeCursor } from '../../../http/responses/paging.ts';
import { systemContext } from '../../../kernel/context/command-context.ts';
import { tableOf } from '../../../eventsourcing/projections/projection.ts';
import { auditProjection } from './audit.projection.ts';

let server: TestServer;
let agents: AgentFixture;

beforeAll(async () => {
  server = await startFeatureServer({
    ...agentFeatures,
    definitions: [...agentFeatures.definitions, ...Object.values(conversationEvents)],
  });
  agents = new AgentFixture(server);
});
afterAll(() => server?.close());

/** Requests the audit once it includes everything written so far. */
async function audit(query: string, credential: string, options: RequestOptions = {}): Promise<TestResponse> {
  const head = await server.app.get(EventStore, { strict: false }).head('core');
  return server.request('GET', `/api/v1/audit${query}`, {
    ...options,
    credential,
    headers: { 'x-min-event-position': head, ...options.headers },
  });
}

const ndjson = { headers: { accept: 'application/x-ndjson' } };
const types = ({ json }: TestResponse) => (json as { type: string }[]).map(({ type }) => type);
const lines = ({ text }: TestResponse) =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { position: string; type: string });

function expectProblem(answer: TestResponse, status: number, code: string): void {
  expect({ status: answer.status, code: answer.json?.code }).toEqual({ status, code });
}

/** Creates a new account with an agent that the account's key renames `changes` times. */
async function busyAccount(changes: number): Promise<{ account: string; key: string; agentId: string }> {
  const account = uuidv7();
  const key = `mk_${account}`;
  await agents.account(account, 5);
  const agentId = await agents.created(account);
  for (let count = 0; count < changes; count++)
    await server.request('PATCH', `/api/v1/agents/${agentId}`, { credential: key, json: { name: `name ${count}` } });
  return { account, key, agentId };
}

it('lists every event of the account in the order of the log, with its summary, and no secret', async () => {
  const { account, key, agentId } = await busyAccount(1);
  const env = { key: 'TOKEN', value: 'canary-0815-secret', is_secret: true };
  await server.request('POST', `/api/v1/agents/${agentId}/env`, { credential: key, json: env, headers: { 'x-request-id': 'sets' } });
  const answer = await audit('', key);
  expect(types(answer)).toEqual(['AccountOpened', 'PlanAssigned', 'AgentProvisioned', 'AgentConfigured', 'VariableSet']);
  const [history] = (await server.request('GET', `/api/v1/agents/${agentId}/history?type=VariableSet`, { credential: key })).json;
  expect(answer.json.at(-1)).toEqual({
    ...history,
    account_id: account,
    agent_id: agentId,
    computer_id: null,
    stream: agentStream(agentId),
  });
  expect(history).toMatchObject({ summary: 'Set the secret TOKEN', request_id: 'sets', data: { sealed: '••••••••' } });
  const stored = await operate(server.databaseUrl, `select * from ${tableOf(auditProjection)} where account_id = $1`, [account]);
  expect(stored).toHaveLength(answer.json.length);
  expect(JSON.stringify(stored)).not.toMatch(/0815|TOKEN|"ct"/);
});

it("never lists events of another account or of none; an administrator's session lists all", async () => {
  const [mine, other] = [await busyAccount(1), await busyAccount(1)];
  const rename = { type: 'ConfigureAgent' as const, accountId: mine.account, changes: { name: 'nobody' } };
  const ofNobody = systemContext('test', null);
  await server.app.get(Agents, { strict: false }).execute(mine.agentId, rename, ofNobody);
  const seen = async (query: string, credential: string) =>
    new Set((await audit(query, credential)).json.map((item: { account_id: string }) => item.account_id));
  for (const query of ['', `?account_id=${mine.account}`, '?actor=system', `?agent_id=${other.agentId}`, '?limit=200'])
    for (const account of await seen(query, mine.key)) expect(account).toBe(mine.account);
  expect((await audit(`?agent_id=${other.agentId}`, mine.key)).json).toEqual([]);
  for (const asked of [other.account, uuidv7()]) expectProblem(await audit(`?account_id=${asked}`, mine.key), 403, 'insufficient_scope');
  expectProblem(await audit('', `${mine.key}_deploy`), 403, 'insufficient_scope');
  expect(await seen(`?account_id=${other.account}`, 'ms_root')).toEqual(new Set([other.account]));
  const all = await seen(`?order=desc&limit=200`, 'ms_root');
  for (const account of [mine.account, other.account, null]) expect(all).toContain(account);
  expect(await seen('', 'mk_root')).toEqual(new Set());
});

it('filters by type, actor, time and agent, including messages to the agent', async () => {
  const { account, key, agentId } = await busyAccount(3);
  const text = { v: 1 as const, key: 1, iv: 'aXY=', ct: 'Y3Q=' };
  const accept = {
    type: 'AcceptMessage' as const,
    agentId,
    accountId: account,
    messageId: uuidv7(),
    channel: 'chat' as const,
    text,
    replyBy: null,
  };
  const aggregates = server.app.get(Aggregates, { strict: false });
  await aggregates.execute(`conversation-${uuidv7()}`, conversationDecider, { ...accept, begins: true }, systemContext('test', account));
  const all = (await audit('', key)).json as { type: string; at: string; actor: { id: string } }[];
  const chosen = async (query: string) => types(await audit(`?${query}`, key));
  expect(await chosen('type=AgentConfigured')).toEqual(['AgentConfigured', 'AgentConfigured', 'AgentConfigured']);
  expect(await chosen('type=PlanAssigned,AccountOpened&order=desc')).toEqual(['PlanAssigned', 'AccountOpened']);
  expect(await chosen(`actor=${key}`)).toHaveLength(3);
  expect(await chosen('actor=system')).toEqual([
    'AccountOpened',
    'PlanAssigned',
    'AgentProvisioned',
    'ConversationStarted',
    'MessageAccepted',
  ]);
  expect(await chosen(`agent_id=${agentId}`)).toEqual([
    'AgentProvisioned',
    ...Array.from({ length: 3 }, () => 'AgentConfigured'),
    'ConversationStarted',
    'MessageAccepted',
  ]);
  const middle = (all[3] as { at: string }).at;
  const expected = (fits: (at: string) => boolean) => all.filter(({ at }) => fits(at)).map(({ type }) => type);
  expect(await chosen(`since=${middle}`)).toEqual(expected((at) => at >= middle));
  expect(await chosen(`until=${middle}`)).toEqual(expected((at) => at < middle));
  expect(await chosen('since=2999-01-01')).toEqual([]);
  expect(await chosen('until=2001-01-01')).toEqual([]);
  const history = await server.request('GET', `/api/v1/agents/${agentId}/history?actor=${key}&since=${middle}`, { credential: key });
  expect(history.json).toHaveLength(all.filter(({ at, actor }) => actor.id === key && at >= middle).length);
  for (const query of ['since=x', 'type=a', 'order=up', 'account_id=x', 'cursor=x', 'limit=0', 'foo=1'])
    expectProblem(await audit(`?${query}`, key), 400, 'invalid_request');
});

it('returns pages in either order, and everything as lines', async () => {
  const { key } = await busyAccount(5);
  for (const order of ['asc', 'desc']) {
    const found: string[] = [];
    let path: string | undefined = `?limit=3&order=${order}`;
    while (path !== undefined) {
      const page: TestResponse = await audit(path, key);
      expect(page.json.length).toBeLessThanOrEqual(3);
      found.push(...page.json.map((item: { position: string }) => item.position));
      path = /<\/api\/v1\/audit([^>]+)>; rel="next"/.exec(page.headers.get('link') ?? '')?.[1];
    }
    expect([...new Set(found)]).toHaveLength(8);
    expect(found).toEqual(order === 'asc' ? found.toSorted() : found.toSorted().toReversed());
    const whole = await audit(`?order=${order}`, key, ndjson);
    expect(whole.headers.get('content-type')).toContain('application/x-ndjson');
    expect(lines(whole).map(({ position }) => position)).toEqual(found);
  }
  expect(lines(await audit('?type=AgentConfigured&limit=2', key, ndjson))).toHaveLength(2);
  expect((await audit('?since=2999-01-01', key, ndjson)).text).toBe('');
  const end = encodeCursor(['9'.repeat(20)]);
  for (const filter of ['', '&type=AgentConfigured']) {
    expect((await audit(`?cursor=${end}${filter}`, key)).json).toEqual([]);
    expect((await audit(`?cursor=${end}${filter}&order=desc&limit=2`, key)).json).toHaveLength(2);
  }
});

it('exports all events, however many there are', async () => {
  const { account, key } = await busyAccount(0);
  const store = server.app.get(EventStore, { strict: false });
  const { actor } = systemContext('test', account);
  const metadata = { actor, account_id: account, request_id: null, causation_id: null, ip: null };
  const data = { changes: { description: 'x' } };
  const events = Array.from({ length: 450 }, () => ({ id: uuidv7(), type: 'AgentConfigured', schemaVersion: 1, data, metadata }));
  await store.append(agentStream(uuidv7()), 'no_stream', events);
  const exported = lines(await audit('', key, ndjson)).map(({ position }) => position);
  expect([exported.length, new Set(exported).size]).toEqual([453, 453]);
  expect(exported).toEqual(exported.toSorted());
});
