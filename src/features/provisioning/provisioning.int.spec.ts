import { CommandBus } from '@nestjs/cqrs';
import { v4 as uuidv4, v5 as uuidv5, v7 as uuidv7 } from 'uuid';

import { AgentFixture } from '../../../test/support/agent-fixture.ts';
import { startFeatureServer } from '../../../test/support/feature-server.ts';
import { agentFeatures } from '../../../test/support/features.ts';
import type { TestResponse, RequestOptions, TestServer } from '../../../test/support/http-server.ts';
import { until } from '../../../test/support/until.ts';
import { ReleaseSeat, TakeSeat } from '../accounts/index.ts';
import { agentStream } from '../agents/index.ts';
import { EventStore, type StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import { systemContext } from '../../kernel/context/command-context.ts';
import { Sagas } from '../../eventsourcing/sagas/saga.ts';
import { ProvisioningModule } from './provisioning.module.ts';
import { SeatsSaga, seatKey } from './seats.saga.ts';

let server: TestServer;
let agents: AgentFixture;
let store: EventStore;

beforeAll(async () => {
  server = await startFeatureServer({ ...agentFeatures, modules: [...agentFeatures.modules, ProvisioningModule] });
  agents = new AgentFixture(server);
  store = server.app.get(EventStore, { strict: false });
  await agents.account('acme', 1_000);
});
afterAll(() => server?.close());

const provision = (json: unknown, options: RequestOptions = {}) =>
  server.request('POST', '/api/v1/provision', { credential: 'mk_acme', json, ...options });
const image = (more: object = {}) => ({ name: 'helper', image_name: 'nginx:1', ...more });

function expectProblem(answer: TestResponse, status: number, code: string): void {
  expect({ status: answer.status, code: answer.json?.code }).toEqual({ status, code });
}

async function accountEvents(accountId: string): Promise<StoredEvent[]> {
  const events: StoredEvent[] = [];
  for await (const event of store.readStream(`account-${accountId}`)) events.push(event);
  return events;
}

/** Returns the ids of the agents that hold a seat of the account. */
async function seats(accountId: string): Promise<string[]> {
  const taken = new Set<string>();
  for (const { type, data } of await accountEvents(accountId)) {
    if (type === 'SeatTaken') taken.add(data.agent_id as string);
    if (type === 'SeatReleased') taken.delete(data.agent_id as string);
  }
  return [...taken];
}

const ids = (answers: TestResponse[]) => [...new Set(answers.map(({ json }) => json.agent_id as string))];

describe('POST /api/v1/provision', () => {
  it('makes the agent, its variables and its first deployment in one append', async () => {
    const answer = await provision(
      image({
        description: 'helps',
        env_vars: { A: '1', B: '2' },
        serverless: false,
        idle_ttl_seconds: 0,
        tokenless_webhooks: false,
        external_id: 'user-1',
      }),
    );
    expect(answer.status).toBe(201);
    expect(answer.json).toMatchObject({
      name: 'helper',
      status: 'deploying',
      description: 'helps',
      image: 'auto',
      image_name: 'nginx:1',
      branch: 'main',
      serverless: false,
      idle_ttl_seconds: 0,
      tokenless_webhooks: false,
      external_id: 'user-1',
      deployment_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      message: 'Deploying.',
    });
    const { agent_id: agentId } = answer.json;
    expect(answer.headers.get('location')).toBe(`/api/v1/agents/${agentId}`);
    const events = await agents.events(agentId);
    expect(events.map(({ type }) => type)).toEqual(['AgentProvisioned', 'VariableSet', 'VariableSet', 'DeploymentRequested']);
    expect(new Set(events.map(({ at }) => at)).size).toBe(1);
    expect((await accountEvents('acme')).map(({ type }) => type).slice(-2)).toEqual(['SeatTaken', 'FirstMonthCharged']);
    const read = await server.request('GET', `/api/v1/agents/${agentId}/env`, { credential: 'mk_acme' });
    expect(read.json.map(({ key, value }: { key: string; value: string }) => [key, value])).toEqual([
      ['A', '1'],
      ['B', '2'],
    ]);
  });

  it('gives a name back as it was sent, composed or not', async () => {
    for (const name of ['Zoe\u0308', 'Zo\u00eb', '\u212b']) {
      const { json } = await provision(image({ name, auto_deploy: false }));
      const read = await server.request('GET', `/api/v1/agents/${json.agent_id}`, { credential: 'mk_acme' });
      expect([json.name, read.json.name]).toEqual([name, name]);
    }
  });

  it('answers agent_not_found to an unknown id of any length', async () => {
    for (const length of [36, 3_000, 10_000]) {
      const answer = await server.request('GET', `/api/v1/agents/${'7'.repeat(length)}`, { credential: 'mk_acme' });
      expect([answer.status, answer.json.code]).toEqual([404, 'agent_not_found']);
    }
  });

  it('does not deploy the agent if the request says so', async () => {
    const { json, status } = await provision(image({ auto_deploy: false }));
    expect([status, json.status, json.deployment_id, json.desired_state]).toEqual([201, 'created', null, 'none']);
  });

  it('waits until the agent is deployed if the caller asks for it', async () => {
    const answer = provision(image({ external_id: 'waits' }), { headers: { prefer: 'wait=60' } });
    const agentId = await until('the agent is there', async () => {
      const { json } = await server.request('GET', '/api/v1/agents?external_id=waits', { credential: 'mk_acme' });
      return json[0]?.agent_id as string | undefined;
    });
    await agents.deployed(agentId);
    const { status, json, headers } = await answer;
    expect([status, json.status, headers.get('preference-applied')]).toEqual([201, 'active', 'wait']);
  });

  it('lists every invalid field in one response, and stores nothing', async () => {
    const { length } = await accountEvents('acme');
    const bad = {
      name: 'a\u0000b'.replace('\u0000', '\u0007'),
      description: 7,
      image: 'podman',
      image_name: 'a b',
      repo_url: 'https://user:canary@host/x',
      branch: '-x',
      auto_deploy: 'yes',
      env_vars: { PORT: '1', 'a-b': '2', C: 3, ok: 'x', MOORING_X: 'y' },
      external_id: '',
      serverless: null,
      idle_ttl_seconds: 5,
      account_id: 'other',
    };
    const answer = await provision(bad);
    expectProblem(answer, 400, 'invalid_request');
    expect(new Set(answer.json.errors.map(({ field }: { field: string }) => field))).toEqual(new Set(Object.keys(bad)));
    const variables = answer.json.errors.find(({ field }: { field: string }) => field === 'env_vars').message;
    for (const key of ['PORT', 'a-b', 'C', 'MOORING_X']) expect(variables).toContain(`"${key}"`);
    expect(variables).not.toContain('"ok"');
    expect(answer.text).not.toContain('canary');
    expect((await accountEvents('acme')).length).toBe(length);
  });

  it.each([
    ['nothing to deploy', { name: 'x' }],
    ['nothing to deploy later either', { name: 'x', auto_deploy: false }],
    ['docker without an image', { name: 'x', image: 'docker' }],
    ['custom without an image', { name: 'x', image: 'custom' }],
    ['a repository at a private address', { name: 'x', repo_url: 'https://127.0.0.1/x.git' }],
    ['no name', { image_name: 'nginx' }],
    ['a name of 64 characters', image({ name: 'x'.repeat(64) })],
    ['an external id of 256 characters', image({ external_id: 'x'.repeat(256) })],
    ['201 variables', image({ env_vars: Object.fromEntries(Array.from({ length: 201 }, (_, index) => [`A${index}`, ''])) })],
    ['a variable with a number for a secret', image({ env_vars: { A: { secret: 7 } } })],
    ['a variable with a value beside its secret', image({ env_vars: { A: { secret: 'openai', value: 'x' } } })],
    ['a variable with a malformed name of a secret', image({ env_vars: { A: { secret: 'Open AI' } } })],
    ['variables that are an array', image({ env_vars: ['A'] })],
    ['a variable too large', image({ env_vars: { A: 'x'.repeat(32_769) } })],
    [
      'variables too large together',
      image({ env_vars: Object.fromEntries(Array.from({ length: 30 }, (_, index) => [`A${index}`, 'x'.repeat(30_000)])) }),
    ],
    ['a status', image({ status: 'active' })],
    ['a variable that would get lost on the way', image({ env_vars: { constructor: '1' } })],
    ['no object', 'x'],
  ])('refuses %s', async (_, json) => {
    const { length } = await accountEvents('acme');
    expectProblem(await provision(json), 400, 'invalid_request');
    expect((await accountEvents('acme')).length).toBe(length);
  });

  it('accepts as many variables as fit', async () => {
    const env_vars = Object.fromEntries(Array.from({ length: 200 }, (_, index) => [`A${index}`, 'x'.repeat(3_900)]));
    expect((await provision(image({ env_vars }))).status).toBe(201);
  });

  it('requires the scope manage for a variable that takes its value from a secret', async () => {
    const json = image({ env_vars: { A: { secret: 'openai' } } });
    const { length } = await accountEvents('acme');
    const refused = await provision(json, { credential: 'mk_acme_provision' });
    expectProblem(refused, 403, 'insufficient_scope');
    expect(refused.json.required_scopes).toEqual(['manage']);
    expect((await accountEvents('acme')).length).toBe(length);
    // A caller who may use secrets is told which of them does not exist.
    expectProblem(await provision(json, { credential: 'mk_acme_manage' }), 400, 'secret_not_found');
    const rest = { credential: 'mk_acme_provision', json: { name: 'x', templateId: 'hello', envVars: { A: { secret: 'openai' } } } };
    expectProblem(await server.request('POST', '/api/agents', rest), 403, 'insufficient_scope');
  });

  it('requires the scope provision', async () => {
    for (const [scope, status] of Object.entries({ deploy: 403, computers: 403, provision: 201, manage: 201 }))
      expect((await provision(image(), { credential: `mk_acme_${scope}` })).status).toBe(status);
  });
});

describe('POST /api/agents', () => {
  const create = (json: unknown) => server.request('POST', '/api/agents', { credential: 'mk_acme', json });

  it('makes an agent from a template and deploys it', async () => {
    const settings = { idleTtlSeconds: 60, tokenlessWebhooks: false };
    const answer = await create({ name: 'hi', templateId: 'hello', externalId: 'rest-1', envVars: { A: '1' }, ...settings });
    expect(answer.status).toBe(201);
    expect(answer.json).toMatchObject({ name: 'hi', status: 'deploying', templateId: 'hello', externalId: 'rest-1', ...settings });
    expect(answer.headers.get('location')).toBe(`/api/agents/${answer.json.id}`);
  });

  it('refuses an unknown template before anything is stored', async () => {
    const { length } = await accountEvents('acme');
    expectProblem(await create({ name: 'hi', templateId: 'nothing' }), 404, 'template_not_found');
    expectProblem(await create({ name: 'hi', templateId: '../hello' }), 404, 'template_not_found');
    expectProblem(await create({ name: 'hi' }), 400, 'invalid_request');
    expectProblem(await create({ name: 'hi', templateId: 'hello', image_name: 'x' }), 400, 'invalid_request');
    expect((await accountEvents('acme')).length).toBe(length);
  });
});

describe('seats', () => {
  it('50 creations at once on 10 seats make exactly 10 agents', async () => {
    await agents.account('ten', 10);
    const answers = await Promise.all(Array.from({ length: 50 }, () => provision(image(), { credential: 'mk_ten' })));
    const made = answers.filter(({ status }) => status === 201);
    expect([made.length, ids(made).length]).toEqual([10, 10]);
    for (const answer of answers.filter(({ status }) => status !== 201)) expectProblem(answer, 402, 'seat_limit');
    const { position } = await agents.load(ids(made)[9] ?? '');
    const list = await server.request('GET', '/api/v1/agents', { credential: 'mk_ten', headers: { 'x-min-event-position': position } });
    expect(list.json).toHaveLength(10);
    expect((await seats('ten')).sort()).toEqual(ids(made).sort());
  });

  it('an account without a plan gets no agent', async () => {
    await agents.account('unpaid', 0);
    expectProblem(await provision(image(), { credential: 'mk_unpaid' }), 402, 'seat_limit');
  });

  it('a deleted agent gives its seat back before its deletion is answered', async () => {
    await agents.account('one', 1);
    const first = await provision(image(), { credential: 'mk_one' });
    const deletion = server.request('DELETE', `/api/v1/agents/${first.json.agent_id}`, { credential: 'mk_one' });
    await until('the deletion is asked for', async () =>
      (await agents.load(first.json.agent_id)).state?.status === 'deleting' ? true : undefined,
    );
    await agents.says(first.json.agent_id, { type: 'RecordDeleted' });
    expect((await deletion).status).toBe(204);
    expect((await provision(image(), { credential: 'mk_one' })).status).toBe(201);
  });

  it('a deleted agent gives its seat back even if no request waits for it', async () => {
    await agents.account('gone', 1);
    const first = await provision(image(), { credential: 'mk_gone' });
    await agents.says(first.json.agent_id, { type: 'DeleteAgent', accountId: 'gone' });
    await agents.says(first.json.agent_id, { type: 'RecordDeleted' });
    await until('the seat is free', async () => ((await seats('gone')).length === 0 ? true : undefined));
  });

  it('a seat without an agent is released after a minute, and the agent can no longer be made', async () => {
    await agents.account('crashed', 1);
    const agentId = uuidv7();
    const context = systemContext('test', 'crashed');
    await server.app.get(CommandBus).execute(new TakeSeat(context, 'crashed', agentId, null));
    const saga = server.app.get(SeatsSaga, { strict: false });
    const now = new Date();
    expect(await saga.reconcile(seatKey(agentId, 'crashed', now.toISOString()))).toEqual(new Date(now.getTime() + 60_000));
    expect(await seats('crashed')).toEqual([agentId]);
    // The key's time is 61 seconds old, so the minute is over.
    server.app.get(Sagas, { strict: false }).wake('seats', seatKey(agentId, 'crashed', new Date(now.getTime() - 61_000).toISOString()));
    await until('the seat is free', async () => ((await seats('crashed')).length === 0 ? true : undefined));
    const late = agents.says(agentId, {
      type: 'ProvisionAgent',
      accountId: 'crashed',
      externalId: null,
      settings: {
        name: 'late',
        description: null,
        image: 'auto',
        image_name: 'x',
        repo_url: null,
        branch: 'main',
        template_id: null,
        serverless: true,
        idle_ttl_seconds: 0,
      },
    });
    await expect(late).rejects.toThrow('closed');
  });

  it('an existing agent keeps its seat', async () => {
    const { json } = await provision(image());
    const saga = server.app.get(SeatsSaga, { strict: false });
    expect(await saga.reconcile(seatKey(json.agent_id, 'acme', '2020-01-01T00:00:00.000Z'))).toBeNull();
    expect(await seats('acme')).toContain(json.agent_id);
  });
});

describe('one agent for one external id', () => {
  it('20 concurrent creations make one agent; the others return it and need no seat', async () => {
    await agents.account('ext', 1);
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => provision(image({ external_id: 'user-7' }), { credential: 'mk_ext' })),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(19);
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(ids(answers)).toHaveLength(1);
    expect(await seats('ext')).toEqual(ids(answers));
    const again = await provision(image({ name: 'other', external_id: 'user-7' }), { credential: 'mk_ext' });
    expect([again.status, again.json.name]).toEqual([200, 'helper']);
  });

  it('is reused if the process that took the seat died before it made the agent', async () => {
    await agents.account('taken', 1);
    const agentId = uuidv7();
    await server.app.get(CommandBus).execute(new TakeSeat(systemContext('test', 'taken'), 'taken', agentId, 'user-1'));
    const answer = await provision(image({ external_id: 'user-1' }), { credential: 'mk_taken' });
    expect([answer.status, answer.json.agent_id]).toEqual([201, agentId]);
  });

  it('is free again once the agent is deleted, and a request waits for a running deletion', async () => {
    await agents.account('again', 1);
    const first = await provision(image({ external_id: 'user-1' }), { credential: 'mk_again' });
    await agents.says(first.json.agent_id, { type: 'DeleteAgent', accountId: 'again' });
    const second = provision(image({ external_id: 'user-1' }), { credential: 'mk_again' });
    await agents.says(first.json.agent_id, { type: 'RecordDeleted' });
    expect([(await second).status, (await second).json.agent_id]).toEqual([201, expect.not.stringContaining(first.json.agent_id)]);
    expect(await seats('again')).toEqual([(await second).json.agent_id]);
  });
});

describe('a repeated request', () => {
  it('makes one agent under one Idempotency-Key', async () => {
    const key = uuidv4();
    const first = await provision(image(), { headers: { 'idempotency-key': key } });
    const again = await provision(image(), { headers: { 'idempotency-key': key } });
    expect([first.status, again.status, again.headers.get('idempotency-replayed')]).toEqual([201, 201, 'true']);
    expect(again.json).toEqual(first.json);
    expectProblem(await provision(image({ name: 'other' }), { headers: { 'idempotency-key': key } }), 422, 'idempotency_key_reused');
  });

  it.each(['after the seat', 'after the agent'])('continues after the first try died %s', async (when) => {
    const { Provision } = await import('./provisioning.commands.ts');
    const commands = server.app.get(CommandBus);
    const seed = uuidv4();
    const context = systemContext('test', 'acme');
    const agentId = uuidv5('agent 0', seed);
    if (when === 'after the seat') await commands.execute(new TakeSeat(context, 'acme', agentId, null));
    else await commands.execute(new Provision(context, 'acme', { name: 'x', imageName: 'nginx' }, seed));
    const result = await commands.execute(new Provision(context, 'acme', { name: 'x', imageName: 'nginx' }, seed));
    expect([result.agentId, result.isNew]).toEqual([agentId, true]);
    expect((await seats('acme')).filter((id) => id === agentId)).toHaveLength(1);
    expect((await agents.types(agentId)).filter((type) => type === 'AgentProvisioned')).toHaveLength(1);
  });

  it('makes the agent even if the seat of the first try was released', async () => {
    const { Provision } = await import('./provisioning.commands.ts');
    const commands = server.app.get(CommandBus);
    const seed = uuidv4();
    const context = systemContext('test', 'acme');
    const lost = uuidv5('agent 0', seed);
    await commands.execute(new TakeSeat(context, 'acme', lost, null));
    await store.closeStream(agentStream(lost), 'no_stream');
    await commands.execute(new ReleaseSeat(context, 'acme', lost));
    const [one, two] = [
      await commands.execute(new Provision(context, 'acme', { name: 'x', imageName: 'nginx' }, seed)),
      await commands.execute(new Provision(context, 'acme', { name: 'x', imageName: 'nginx' }, seed)),
    ];
    expect([one.agentId === two.agentId, one.isNew, two.isNew]).toEqual([true, true, true]);
    expect(await seats('acme')).not.toContain(lost);
  });
});
