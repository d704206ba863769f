import { CommandBus } from '@nestjs/cqrs';
import { v7 as uuidv7 } from 'uuid';

import { AgentFixture } from '../../../test/support/agent-fixture.ts';
import { startFeatureServer } from '../../../test/support/feature-server.ts';
import { agentFeatures } from '../../../test/support/features.ts';
import type { TestResponse, RequestOptions, TestServer } from '../../../test/support/http-server.ts';
import { until } from '../../../test/support/until.ts';
import { EventWaits } from '../../eventsourcing/log/event-waits.ts';
import { systemContext } from '../../kernel/context/command-context.ts';
import { DeleteAgent } from './agents.commands.ts';

let server: TestServer;
let agents: AgentFixture;

beforeAll(async () => {
  server = await startFeatureServer(agentFeatures);
  agents = new AgentFixture(server);
  await agents.account('acme', 0);
});
afterAll(() => server?.close());

const call = (method: string, path: string, options: RequestOptions = {}) =>
  server.request(method, path, { credential: 'mk_acme', ...options });
/** Returns options with which a read waits for the agent's latest event, which the bed may have written itself. */
const seen = async (agentId: string) => ({ headers: { 'x-min-event-position': (await agents.load(agentId)).position } });

function expectProblem(answer: TestResponse, status: number, code: string): void {
  expect({ status: answer.status, code: answer.json?.code }).toEqual({ status, code });
}

/** The run settings of an agent that says none of itself, in the spelling of each surface. */
const unsaid = {
  protocol: null,
  port: null,
  health_path: null,
  start: null,
  root: null,
  start_timeout: null,
  memory_mb: null,
  cpus: null,
  webhook_handshake: null,
  build_variables: null,
};
const unsaidRest = {
  protocol: null,
  port: null,
  healthPath: null,
  start: null,
  root: null,
  startTimeout: null,
  memoryMb: null,
  cpus: null,
  webhookHandshake: null,
  buildVariables: null,
};

describe('reading agents', () => {
  it('shows an agent in the spelling of each surface, with its revision as ETag', async () => {
    const agentId = await agents.active('acme', { name: 'Zoë', description: 'helps', idle_ttl_seconds: 60, externalId: 'user-1' });
    const v1 = await call('GET', `/api/v1/agents/${agentId}`, await seen(agentId));
    const { deployment_id, created_at, updated_at, ...rest } = v1.json;
    expect(rest).toEqual({
      agent_id: agentId,
      name: 'Zoë',
      status: 'active',
      external_id: 'user-1',
      description: 'helps',
      image: 'docker',
      image_name: 'nginx:1',
      repo_url: null,
      branch: 'main',
      template_id: null,
      serverless: true,
      idle_ttl_seconds: 60,
      egress: null,
      tokenless_webhooks: true,
      ...unsaid,
      message: 'Running.',
      public_url: null,
      desired_state: 'running',
      last_active_at: null,
    });
    const { revision } = await agents.load(agentId);
    expect(v1.headers.get('etag')).toBe(`"${revision}"`);
    for (const time of [created_at, updated_at]) expect(time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);

    const restView = await call('GET', `/api/agents/${agentId}`);
    expect(restView.json).toEqual({
      id: agentId,
      agent_id: agentId,
      name: 'Zoë',
      status: 'active',
      externalId: 'user-1',
      description: 'helps',
      image: 'docker',
      imageName: 'nginx:1',
      repoUrl: null,
      branch: 'main',
      templateId: null,
      serverless: true,
      idleTtlSeconds: 60,
      egress: null,
      tokenlessWebhooks: true,
      ...unsaidRest,
      deploymentId: deployment_id,
      message: 'Running.',
      publicUrl: null,
      desiredState: 'running',
      lastActiveAt: null,
      createdAt: created_at,
      updatedAt: updated_at,
    });
  });

  it('lists the account, newest first, page by page, and finds an agent by the id that the caller gave it', async () => {
    const made: string[] = [];
    for (let index = 0; index < 5; index += 1) made.unshift(await agents.created('lister', { externalId: `user-${index}` }));
    await agents.created('acme');
    const options = { credential: 'mk_lister', ...(await seen(made[0] ?? '')) };

    const pages: string[][] = [];
    let path: string | undefined = '/api/v1/agents?limit=2';
    while (path !== undefined) {
      const page: TestResponse = await server.request('GET', path, options);
      pages.push(page.json.map((agent: { agent_id: string }) => agent.agent_id));
      path = /<([^>]+)>; rel="next"/.exec(page.headers.get('link') ?? '')?.[1];
    }
    expect(pages.flat()).toEqual(made);
    expect(pages.map((page) => page.length)).toEqual([2, 2, 1]);

    const found = await server.request('GET', '/api/agents?external_id=user-3', options);
    expect(found.json.map((agent: { id: string }) => agent.id)).toEqual([made[1]]);
    expect((await server.request('GET', '/api/agents?external_id=user-9', options)).json).toEqual([]);
  });

  it('refuses an invalid page', async () => {
    for (const query of ['limit=0', 'limit=201', 'limit=1e3', 'cursor=x', 'cursor=WyJ4IiwieSJd', 'page=2'])
      expectProblem(await call('GET', `/api/v1/agents?${query}`), 400, 'invalid_request');
  });

  it("answers the same for another account's agent, an unknown or deleted one, and an invalid id", async () => {
    const foreign = await agents.active('other');
    const deleted = await agents.active('acme');
    await agents.says(deleted, { type: 'DeleteAgent', accountId: 'acme' });
    await agents.says(deleted, { type: 'RecordDeleted' });
    const options = await seen(deleted);
    const routes: [string, string][] = [
      ['GET', ''],
      ['GET', '/wait'],
      ['POST', '/start'],
      ['POST', '/stop'],
      ['POST', '/sleep'],
      ['POST', '/restart'],
      ['DELETE', ''],
    ];
    for (const [method, path] of routes) {
      const answers = await Promise.all(
        [foreign, deleted, uuidv7(), 'none', "x'--", foreign.slice(1)].map((id) =>
          call(method, `/api/v1/agents/${encodeURIComponent(id)}${path}`, {
            headers: { ...options.headers, 'x-request-id': 'same', 'if-match': '"0"' },
          }),
        ),
      );
      expectProblem(answers[0] as TestResponse, 404, 'agent_not_found');
      expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    }
    expect((await agents.load(foreign)).state?.status).toBe('active');
  });
});

describe('what a key may do', () => {
  it.each([
    ['provision', [200, 403, 403, 403]],
    ['deploy', [403, 202, 403, 202]],
    ['manage', [200, 202, 200, 202]],
    ['computers', [403, 403, 403, 403]],
  ])('with the scope %s', async (scope, expected) => {
    const agentId = await agents.active('scoped');
    const options = { credential: `mk_scoped_${scope}`, ...(await seen(agentId)) };
    const statuses = [
      await server.request('GET', `/api/v1/agents/${agentId}`, options),
      await server.request('POST', `/api/v1/agents/${agentId}/stop`, options),
      await server.request('PATCH', `/api/v1/agents/${agentId}`, { ...options, json: { name: 'x' } }),
      await server.request('POST', `/api/v1/agents/${agentId}/sleep`, options),
    ].map(({ status, json }) => (json?.code === 'invalid_state' ? 202 : status));
    expect(statuses).toEqual(expected);
  });
});

describe('life', () => {
  it('stop is accepted and appends once, and a caller that sends no position reads its own write', async () => {
    const agentId = await agents.active('acme');
    const stopped = await call('POST', `/api/v1/agents/${agentId}/stop`);
    expect(stopped.status).toBe(202);
    expect(stopped.json).toMatchObject({ agent_id: agentId, status: 'stopping', desired_state: 'stopped' });
    expect(stopped.headers.get('x-event-position')).toBe((await agents.load(agentId)).position);
    expect((await call('GET', `/api/v1/agents/${agentId}`)).json.status).toBe('stopping');

    await agents.says(agentId, { type: 'RecordStopped' });
    const again = await call('POST', `/api/agents/${agentId}/stop`);
    expect([again.status, again.json.status]).toEqual([202, 'stopped']);
    expect((await agents.types(agentId)).filter((type) => type.startsWith('AgentStop'))).toEqual(['AgentStopRequested', 'AgentStopped']);
  });

  it('start reports whether it woke the agent', async () => {
    const awake = await call('POST', `/api/agents/${await agents.active('acme')}/start`);
    expect([awake.status, awake.headers.get('x-agent-woken')]).toEqual([202, null]);
    const asleep = await call('POST', `/api/agents/${await agents.asleep('acme')}/start`);
    expect([asleep.status, asleep.json.status, asleep.headers.get('x-agent-woken')]).toEqual([202, 'waking', 'true']);
  });

  it('start and restart are refused for an agent that was never deployed', async () => {
    const agentId = await agents.created('acme');
    expectProblem(await call('POST', `/api/v1/agents/${agentId}/start`), 409, 'invalid_state');
    expectProblem(await call('POST', `/api/v1/agents/${agentId}/restart`), 409, 'invalid_state');
    expect(await agents.types(agentId)).toEqual(['AgentProvisioned']);
  });

  it('answers when the agent has settled if the caller prefers to wait', async () => {
    const agentId = await agents.active('acme');
    const answer = call('POST', `/api/v1/agents/${agentId}/restart`, { headers: { prefer: 'wait=60' } });
    await until('the restart is asked for', async () => ((await agents.load(agentId)).state?.status === 'restarting' ? true : undefined));
    await agents.ready(agentId);
    const settled = await answer;
    expect([settled.status, settled.json.status, settled.headers.get('preference-applied')]).toEqual([200, 'active', 'wait']);
  });

  it('answers 202 if the time is over first', async () => {
    const agentId = await agents.active('acme');
    const answer = await call('POST', `/api/agents/${agentId}/sleep`, { headers: { prefer: 'wait=0' } });
    expect([answer.status, answer.json.status, answer.headers.get('preference-applied')]).toEqual([202, 'stopping', null]);
    expectProblem(await call('POST', `/api/agents/${agentId}/start`, { headers: { prefer: 'wait=121' } }), 400, 'invalid_request');
  });

  it('honours If-Match', async () => {
    const agentId = await agents.active('acme');
    const { revision } = await agents.load(agentId);
    const stale = await call('POST', `/api/v1/agents/${agentId}/stop`, { headers: { 'if-match': `"${revision - 1}"` } });
    expectProblem(stale, 412, 'revision_mismatch');
    const fresh = await call('POST', `/api/v1/agents/${agentId}/stop`, { headers: { 'if-match': `"${revision}"` } });
    expect([fresh.status, fresh.headers.get('etag')]).toEqual([202, `"${revision + 1}"`]);
  });
});

describe('waiting for a status', () => {
  it('answers as soon as the agent has it', async () => {
    const agentId = await agents.asleep('acme');
    const answer = call('GET', `/api/agents/${agentId}/wait?status=active,error&timeout=60`);
    await call('POST', `/api/agents/${agentId}/start`);
    await agents.ready(agentId);
    expect([(await answer).status, (await answer).json.status]).toEqual([200, 'active']);
  });

  it('returns the current status at the timeout', async () => {
    const agentId = await agents.created('acme');
    const late = await call('GET', `/api/v1/agents/${agentId}/wait?status=active&timeout=0`);
    expectProblem(late, 408, 'wait_timeout');
    expect(late.json.agent_status).toBe('created');
  });

  it('returns 404 if the agent is deleted meanwhile', async () => {
    const agentId = await agents.active('acme');
    const answer = call('GET', `/api/v1/agents/${agentId}/wait?status=stopped`);
    await agents.says(agentId, { type: 'DeleteAgent', accountId: 'acme' });
    await agents.says(agentId, { type: 'RecordDeleted' });
    expectProblem(await answer, 404, 'agent_not_found');
  });

  it('refuses an unknown status, and a time that is too long', async () => {
    const agentId = await agents.created('acme');
    for (const query of ['status=actve', 'status=', 'status=deleted', 'timeout=121', 'timeout=-1'])
      expectProblem(await call('GET', `/api/v1/agents/${agentId}/wait?${query}`), 400, 'invalid_request');
  });
});

describe('changing settings', () => {
  it('changes the settings that the body names', async () => {
    const agentId = await agents.active('acme');
    const patched = await call('PATCH', `/api/v1/agents/${agentId}`, {
      json: { name: 'new', description: null, serverless: false, idle_ttl_seconds: 0, image_name: 'redis:7', branch: 'dev' },
    });
    expect(patched.status).toBe(200);
    expect(patched.json).toMatchObject({ name: 'new', serverless: false, idle_ttl_seconds: 0, image_name: 'redis:7', branch: 'dev' });
    const { revision } = await agents.load(agentId);
    expect((await call('PATCH', `/api/v1/agents/${agentId}`, { json: { name: 'new' } })).headers.get('etag')).toBe(`"${revision}"`);
  });

  it('sets and clears what the agent may reach', async () => {
    const agentId = await agents.active('acme');
    const patched = async (egress: unknown) => (await call('PATCH', `/api/v1/agents/${agentId}`, { json: { egress } })).json.egress;
    const list = { allow: ['API.example.com', '*.bücher.example:8443', '10.1.2.0/24'] };
    const wanted = ['none', 'internet', list, list, { allow: ['api.example.com'] }, null];
    for (const egress of wanted) expect(await patched(egress)).toEqual(egress);
    // The list that was sent twice changed nothing the second time.
    expect((await agents.types(agentId)).filter((type) => type === 'AgentConfigured')).toHaveLength(wanted.length - 1);
  });

  it('lists every invalid field in one response and stores nothing', async () => {
    const agentId = await agents.active('acme');
    const bad = {
      name: 'x\u202ey',
      description: 'a\u0007b',
      serverless: 'yes',
      idle_ttl_seconds: 29,
      image_name: 'a b',
      repo_url: 'https://user:pw@host/x',
      branch: '--upload-pack=x',
      status: 'active',
      account_id: 'other',
    };
    const refused = await call('PATCH', `/api/v1/agents/${agentId}`, { json: bad });
    expectProblem(refused, 400, 'invalid_request');
    expect(new Set(refused.json.errors.map((error: { field: string }) => error.field))).toEqual(new Set(Object.keys(bad)));
    expect(refused.text).not.toContain('pw@');
    expect(await agents.types(agentId)).not.toContain('AgentConfigured');
  });

  it.each([
    [{ name: '' }],
    [{ name: ' ' }],
    [{ name: 'x'.repeat(64) }],
    [{ name: null }],
    [{ name: 'a\nb' }],
    [{ idle_ttl_seconds: 86_401 }],
    [{ idle_ttl_seconds: 30.5 }],
    [{ idle_ttl_seconds: '60' }],
    [{ branch: 'a..b' }],
    [{ egress: 'all' }],
    [{ egress: ['internet'] }],
    [{ egress: {} }],
    [{ egress: { allow: [] } }],
    [{ egress: { allow: ['fe80::/10'] } }],
    [{ egress: { allow: ['api.example.com'], deny: ['b.example.com'] } }],
    [{ egress: { allow: { 0: 'api.example.com', length: 1 } } }],
    [{ image_name: '-v' }],
    [{ image_name: 'a/B' }],
    [{ repo_url: 'ext::sh' }],
    [{ repo_url: 'ssh://host/x' }],
    [[]],
    ['x'],
  ])('refuses %j', async (json) => {
    expectProblem(await call('PATCH', `/api/v1/agents/${await agents.created('acme')}`, { json }), 400, 'invalid_request');
  });

  it('counts characters, not bytes', async () => {
    const name = '🙂'.repeat(63);
    expect((await call('PATCH', `/api/v1/agents/${await agents.created('acme')}`, { json: { name } })).json.name).toBe(name);
  });
});

describe('deleting', () => {
  it('answers 204 when the agent is gone, also to callers that joined, and then 404', async () => {
    const agentId = await agents.active('acme');
    const first = call('DELETE', `/api/v1/agents/${agentId}`);
    await until('the deletion is asked for', async () => ((await agents.load(agentId)).state?.status === 'deleting' ? true : undefined));
    expect((await call('GET', `/api/v1/agents/${agentId}`)).json.status).toBe('deleting');
    expectProblem(await call('POST', `/api/v1/agents/${agentId}/stop`), 404, 'agent_not_found');
    // This command is decided before the next one, because commands on one stream keep their order.
    const second = server.app.get(CommandBus).execute(new DeleteAgent(systemContext('test', 'acme'), 'acme', agentId));
    await agents.says(agentId, { type: 'RecordDeleted' });
    expect([(await first).status, (await first).text, (await second).gone]).toEqual([204, '', true]);
    expectProblem(await call('GET', `/api/v1/agents/${agentId}`), 404, 'agent_not_found');
    expectProblem(await call('DELETE', `/api/v1/agents/${agentId}`), 404, 'agent_not_found');
  });

  // This test is the last one, because it ends all waits, as a stopping service does.
  it('responds with 202 if it takes too long', async () => {
    const agentId = await agents.active('acme');
    server.app.get(EventWaits, { strict: false }).beforeApplicationShutdown();
    const answer = await call('DELETE', `/api/v1/agents/${agentId}`);
    expect([answer.status, answer.json.status]).toEqual([202, 'deleting']);
  });
});
