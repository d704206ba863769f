import { Global, Module } from '@nestjs/common';
import { v7 as uuidv7 } from 'uuid';

import { AdminModule } from '../../src/features/admin/admin.module.ts';
import { Database } from '../../src/postgres/database/database.ts';
import { EventStore, START, type StoredEvent } from '../../src/eventsourcing/event-store/event-store.ts';
import { scopes, type Caller } from '../../src/kernel/context/caller.ts';
import { CredentialVerifier } from '../../src/http/auth/credential-verifier.ts';
import { rebuildEvents } from '../../src/eventsourcing/projections/rebuild/rebuild.events.ts';
import { AgentFixture } from '../support/agent-fixture.ts';
import { FaultyRuntimeModule, type FaultyRuntime } from '../support/faulty-runtime.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { runningFeatures } from '../support/features.ts';
import type { TestResponse, RequestOptions, TestServer } from '../support/http-server.ts';
import { until } from '../support/until.ts';
import { agentsProjection } from '../../src/features/agents/services.ts';
import { tableOf } from '../../src/eventsourcing/projections/projection.ts';

/** Knows credentials by their names: `mk_…` are keys, `ms_root` is an administrator's session, and `ms_…` is a member's. */
class Credentials extends CredentialVerifier {
  verifyApiKey(raw: string): Promise<Caller | null> {
    return Promise.resolve({ kind: 'api_key', id: raw, name: raw, accountId: 'acme', role: 'admin', scopes: new Set(scopes) });
  }

  verifySession(token: string): Promise<Caller | null> {
    const role = token === 'ms_root' ? 'admin' : 'member';
    return Promise.resolve({ kind: 'session', id: 'acme', name: token, accountId: 'acme', role, scopes: new Set(scopes) });
  }
}

@Global()
@Module({ providers: [{ provide: CredentialVerifier, useClass: Credentials }], exports: [CredentialVerifier] })
class CredentialsModule {}

let server: TestServer;
let bed: AgentFixture;
let faulty: FaultyRuntime;

beforeAll(async () => {
  const running = runningFeatures(FaultyRuntimeModule.forTest((opened) => (faulty = opened)));
  server = await startFeatureServer({
    ...running,
    modules: [...running.modules, AdminModule],
    definitions: [...running.definitions, ...Object.values(rebuildEvents)],
    credentials: CredentialsModule,
  });
  bed = new AgentFixture(server);
  await bed.account('acme', 100);
});
afterAll(() => server?.close());

const ask = (method: string, path: string, options: RequestOptions = {}) =>
  server.request(method, `/api/admin/${path}`, { credential: 'ms_root', ...options });
const projection = async (name: string) => (await ask('GET', 'projections')).json.find((each: { name: string }) => each.name === name);
const types = (answer: TestResponse) => answer.json.map(({ type }: { type: string }) => type);

async function outcome(rebuildId: string): Promise<string | undefined> {
  const { json } = await ask('GET', `events?stream=projection-${tableOf(agentsProjection)}&limit=200`);
  const about = json.filter(({ data }: { data: { rebuild_id?: string } }) => data.rebuild_id === rebuildId);
  return about.length > 1 ? about.at(-1).type : undefined;
}

function expectProblem(answer: TestResponse, status: number, code: string): void {
  expect({ status: answer.status, code: answer.json?.code }).toEqual({ status, code });
}

/** Runs the work while rebuilds are held back: a rebuild first records that it begins, and waits here for the table. */
async function withoutRebuilds<T>(work: () => Promise<T>): Promise<T> {
  return server.app.get(Database, { strict: false }).transaction(async (client) => {
    await client.query('lock table projection_rebuilds in share mode');
    return work();
  });
}

it.each([
  ['GET', 'projections'],
  ['POST', 'projections/agents/rebuild'],
  ['DELETE', 'projections/agents/rebuild'],
  ['POST', 'projections/agents/verify'],
  ['GET', 'events'],
  ['GET', 'runtime'],
])("is allowed only to an administrator's session: %s %s", async (method, path) => {
  expectProblem(await ask(method, path, { credential: 'mk_acme' }), 401, 'unauthenticated');
  expectProblem(await ask(method, path, { credential: 'ms_member' }), 403, 'insufficient_scope');
  const unknown = await ask(method, path.replace('agents', 'none'));
  if (path.includes('agents')) expectProblem(unknown, 404, 'not_found');
});

describe('projections', () => {
  it('report how far they are behind the log, also to Prometheus', async () => {
    const agentId = await bed.created('acme');
    const { position } = (await bed.events(agentId)).at(-1) as StoredEvent;
    await until('it is there', async () => ((await projection('agents')).position >= position ? true : undefined));
    expect(await projection('agents')).toEqual({
      name: 'agents',
      version: expect.any(Number),
      position: expect.stringMatching(/^\d{20}$/),
      head: expect.stringMatching(/^\d{20}$/),
      lag_events: 0,
      lag_seconds: 0,
      status: 'running',
      error: null,
      filled: true,
      rebuild: null,
    });
    const { text } = await server.request('GET', '/metrics');
    for (const metric of ['mooring_projection_lag_events', 'mooring_projection_lag_seconds', 'mooring_projection_failed'])
      expect(text).toContain(`${metric}{name="agents"} 0`);
  });

  it('are rebuilt on request: the response has the rebuild’s id, the same one while it runs, and the log has the actor', async () => {
    const [first, second] = await withoutRebuilds(async () => [
      await ask('POST', 'projections/agents/rebuild', { headers: { 'x-request-id': 'my-rebuild' } }),
      await ask('POST', 'projections/agents/rebuild'),
    ]);
    expect([first.status, second.status, second.json]).toEqual([202, 202, first.json]);
    expect(await until('its end', () => outcome(first.json.rebuild_id))).toBe('ProjectionRebuilt');
    const events = (await ask('GET', `events?stream=projection-${tableOf(agentsProjection)}`)).json;
    expect(events.find(({ type }: { type: string }) => type === 'ProjectionRebuildRequested')).toMatchObject({
      stream: `projection-${tableOf(agentsProjection)}`,
      account_id: 'acme',
      actor: { kind: 'session', name: 'ms_root' },
      request_id: 'my-rebuild',
      data: first.json,
    });
    const compared = await ask('POST', 'projections/agents/verify');
    expect(compared.json).toMatchObject({ equal: true, differences: [] });
  });

  it('go on serving the current rows after a rebuild is cancelled, which is possible once', async () => {
    const id = await withoutRebuilds(async () => {
      const { json } = await ask('POST', 'projections/agents/rebuild');
      expect((await ask('DELETE', 'projections/agents/rebuild')).status).toBe(204);
      return json.rebuild_id as string;
    });
    expect(await outcome(id)).toBe('ProjectionRebuildCanceled');
    expectProblem(await ask('DELETE', 'projections/agents/rebuild'), 409, 'invalid_state');
    await until('nothing is under way', async () => ((await projection('agents')).rebuild === null ? true : undefined));
    expect((await ask('POST', 'projections/agents/verify')).json).toMatchObject({ equal: true });
  });

  it('are found to differ from the log if a row was tampered with', async () => {
    const agentId = await bed.created('acme');
    const database = server.app.get(Database, { strict: false });
    const rows = () => database.query(`select 1 from ${tableOf(agentsProjection)} where agent_id = $1`, [agentId]);
    await until('its row is there', async () => ((await rows()).length > 0 ? true : undefined));
    await database.query(`update ${tableOf(agentsProjection)} set status = 'canary' where agent_id = $1`, [agentId]);
    const { json, text } = await ask('POST', 'projections/agents/verify');
    expect(json).toMatchObject({ equal: false, differences: [{ key: agentId, kind: 'different', columns: ['status'] }] });
    expect(text).not.toContain('canary');
  });
});

describe('the log', () => {
  it('is browsed by position, page by page, and by stream, type, actor and time; encrypted values are masked', async () => {
    const agentId = await bed.created('acme');
    const set = await server.request('POST', `/api/v1/agents/${agentId}/env`, {
      credential: 'mk_acme',
      json: { key: 'TOKEN', value: 'canary-zulu-secret', is_secret: true },
    });
    expect(set.status).toBe(201);
    const stored: string[] = [];
    for await (const events of server.app.get(EventStore, { strict: false }).readAll(START, { eventClass: 'core' }))
      stored.push(...events.map(({ id }) => id));
    const seen: string[] = [];
    let path: string | undefined = 'events?limit=7';
    while (path !== undefined) {
      const page: TestResponse = await ask('GET', path);
      expect(page.text).not.toContain('zulu');
      seen.push(...page.json.map(({ event_id }: { event_id: string }) => event_id));
      path = /<\/api\/admin\/([^>]+)>; rel="next"/.exec(page.headers.get('link') ?? '')?.[1];
    }
    expect(seen.slice(0, stored.length)).toEqual(stored);
    const own = await ask('GET', `events?stream=agent-${agentId}&limit=200`);
    expect(types(own)).toEqual(await bed.types(agentId));
    expect(own.json.at(-1)).toMatchObject({ type: 'VariableSet', summary: 'Set the secret TOKEN', data: { sealed: '••••••••' } });
    expect(types(await ask('GET', `events?stream=agent-${agentId}&type=AgentStopped,VariableSet`))).toEqual(['VariableSet']);
    const { at, position } = (await bed.events(agentId)).at(-1) as StoredEvent;
    const late = await ask('GET', `events?since=${at}&actor=mk_acme`);
    expect(late.json[0]).toMatchObject({ stream: `agent-${agentId}`, type: 'VariableSet' });
    expect(types(await ask('GET', `events?until=${at}&after=${position}`))).toEqual([]);
    expect(types(await ask('GET', 'events?class=log'))).toEqual([]);
  });

  it('refuses invalid queries', async () => {
    for (const query of ['limit=0', 'cursor=x', 'stream=x', 'class=none', 'after=1', 'since=then', 'foo=1'])
      expectProblem(await ask('GET', `events?${query}`), 400, 'invalid_request');
  });
});

it('compares the engine with the log: desired containers, orphans by name, and missing ones', async () => {
  const image = { image: 'auto', image_name: null, template_id: 'hello' } as const;
  const agentId = await bed.created('acme', image);
  const deployed = await server.request('POST', `/api/v1/agents/${agentId}/deploy`, {
    credential: 'mk_acme',
    headers: { prefer: 'wait=30' },
  });
  expect(deployed.json).toMatchObject({ status: 'active' });
  const { json } = await ask('GET', 'runtime');
  expect(json).toMatchObject({ engine: 'local', orphans: { containers: [], volumes: [] } });
  expect(json.containers.find((each: { agent_id: string }) => each.agent_id === agentId)).toMatchObject({
    state: 'running',
    agent_status: 'active',
    wanted_generation: 1,
    generation: 1,
    verdict: 'as_wanted',
  });
  const swept = await until('the images were looked at', async () => (await ask('GET', 'runtime')).json.images.last_sweep ?? undefined);
  expect(swept).toEqual({ ended_at: expect.any(String), removed: expect.any(Number), removed_bytes: expect.any(Number), refused: 0 });
  expect(json.images.own).toEqual(json.images.all);
  expect(json.images).toMatchObject({ own: { count: expect.any(Number), bytes: expect.any(Number) } });
  expect(json.images.own.count).toBeGreaterThan(0);
  expect(json.images.own.bytes).toBeGreaterThan(0);
  const stranger = uuidv7();
  const computer = `computer-${uuidv7()}`;
  for (const sandboxId of [stranger, computer]) await faulty.inner.ensureVolume(sandboxId);
  expect((await ask('GET', 'runtime')).json.orphans).toEqual({ containers: [], volumes: [`mooring-${stranger}`] });
  for (const sandboxId of [stranger, computer]) await faulty.inner.removeVolume(sandboxId);
});

it('shows the work of the sagas with its accounts, and in /metrics without them', async () => {
  let goOn = () => {};
  faulty.imageWork = () => new Promise((resolve) => (goOn = resolve));
  const agentId = await bed.created('acme', { image: 'auto', image_name: null, template_id: 'hello' } as const);
  await server.request('POST', `/api/v1/agents/${agentId}/deploy`, { credential: 'mk_acme' });
  const deployments = await until('the deployment is under way', async () => {
    const { json } = await ask('GET', 'work');
    const work = json.find((each: { saga: string }) => each.saga === 'deployments');
    return work.top_accounts.length > 0 ? work : undefined;
  });
  expect(deployments.top_accounts).toEqual([{ account_id: 'acme', keys: 1 }]);
  expect(deployments.working + deployments.aside + deployments.queued.signals).toBe(1);
  const told = await until('the metrics tell it', async () => {
    const { text } = await server.request('GET', '/metrics');
    return /^mooring_saga_account_keys\{rank="1"\} [1-9]/m.test(text) ? text : undefined;
  });
  expect(told).not.toContain('acme');
  faulty.imageWork = () => Promise.resolve();
  goOn();
});
