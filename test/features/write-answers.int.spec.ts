import { apiKeyEvents } from '../../src/features/api-keys/index.ts';
import { ApiKeysModule } from '../../src/features/api-keys/api-keys.module.ts';
import { Database } from '../../src/postgres/database/database.ts';
import { AgentFixture } from '../support/agent-fixture.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { subscribedFeatures } from '../support/features.ts';
import type { TestResponse, TestServer } from '../support/http-server.ts';

let server: TestServer;
let agents: AgentFixture;

beforeAll(async () => {
  server = await startFeatureServer({
    modules: [...subscribedFeatures.modules, ApiKeysModule],
    definitions: [...subscribedFeatures.definitions, ...Object.values(apiKeyEvents)],
    environment: { MOORING_ALLOW_PRIVATE_TARGETS: '127.0.0.1' },
  });
  agents = new AgentFixture(server);
  await agents.account('acme', 5);
});
afterAll(() => server?.close());

const call = (method: string, path: string, json?: unknown, credential = 'mk_acme') => server.request(method, path, { credential, json });

/** Runs the work while no read model advances, because their checkpoints are locked. */
async function withStandingReadModels<T>(work: () => Promise<T>): Promise<T> {
  const client = await server.app.get(Database, { strict: false }).pool.connect();
  try {
    await client.query('begin');
    await client.query('select from projection_checkpoints for update');
    return await work();
  } finally {
    await client.query('rollback');
    client.release();
  }
}

describe('a write, while the read models are behind', () => {
  it('is answered with its result, and the next read waits for it', async () => {
    const agentId = await agents.active('acme', { name: 'before' });
    const { answer, again } = await withStandingReadModels(async () => ({
      answer: await call('PATCH', `/api/v1/agents/${agentId}`, { name: 'after' }),
      again: await call('PATCH', `/api/v1/agents/${agentId}`, { description: 'twice' }),
    }));
    expect(answer).toMatchObject({ status: 200, json: { agent_id: agentId, name: 'after', status: 'active' } });
    expect(again).toMatchObject({ status: 200, json: { name: 'after', description: 'twice' } });
    const { revision, position } = await agents.load(agentId);
    expect(again.headers.get('etag')).toBe(`"${revision}"`);
    expect(again.headers.get('x-event-position')).toBe(position);
    const read = await call('GET', `/api/v1/agents/${agentId}`);
    expect(read.json).toEqual(again.json);
  });

  it('of an account is answered with what a list of the accounts shows next', async () => {
    const accounts = '/api/admin/accounts';
    const shown = async ({ json }: TestResponse) => {
      const list = (await call('GET', accounts, undefined, 'ms_root')).json as { account_id: string }[];
      return list.find(({ account_id }) => account_id === json.account_id);
    };
    const holder = { email: 'Ann@Example.com', password: 'a long enough password', name: 'Ann' };
    const opened = await withStandingReadModels(() => call('POST', accounts, holder, 'ms_root'));
    expect(opened).toMatchObject({ status: 201, json: { name: 'Ann', email: 'ann@example.com', plan: null } });
    expect(await shown(opened)).toEqual(opened.json);
    const plan = { plan: 'team', seats: 2, payment_method: true };
    const assigned = await withStandingReadModels(() => call('PUT', `${accounts}/${opened.json.account_id}/plan`, plan, 'ms_root'));
    expect(assigned.json).toEqual({ ...opened.json, payment_method: true, plan: expect.objectContaining({ name: 'team', seats_used: 0 }) });
    expect(await shown(assigned)).toEqual(assigned.json);
  });

  it('of an API key is answered with what a list of the keys shows next', async () => {
    const key = { name: 'ci', scopes: ['deploy'], expires_in_days: 1 };
    const { status, json } = await withStandingReadModels(() => call('POST', '/api/v1/keys', key, 'ms_acme'));
    expect({ status, json }).toMatchObject({ status: 201, json: { name: 'ci', scopes: ['deploy'], is_active: true, last_used_at: null } });
    const { raw_key: _, ...made } = json;
    expect((await call('GET', '/api/v1/keys', undefined, 'ms_acme')).json).toEqual([made]);
  });

  it('of a subscription is answered with what a list of the subscriptions shows next', async () => {
    const subscriptions = '/api/v1/subscriptions';
    const url = 'http://127.0.0.1:9/hook';
    const created = await withStandingReadModels(() => call('POST', subscriptions, { url, types: ['Agent'] }));
    const { secret: _, ...made } = created.json;
    expect(made).toMatchObject({ url, types: ['Agent'], agent_ids: null, active: true });
    expect((await call('GET', subscriptions)).json).toEqual([made]);
    const changed = await withStandingReadModels(() => call('PATCH', `${subscriptions}/${made.id}`, { active: false, types: null }));
    expect(changed.json).toMatchObject({ id: made.id, url, types: null, active: false, created_at: made.created_at });
    expect((await call('GET', subscriptions)).json).toEqual([changed.json]);
    expect((await call('GET', `${subscriptions}/${made.id}`)).json).toEqual(changed.json);
  });
});
