import { AgentBed } from '../support/agent-bed.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { agentFeatures } from '../support/features.ts';
import type { TestServer } from '../support/http-server.ts';
import { Database } from '../../src/postgres/database/database.ts';

let server: TestServer;
let agents: AgentBed;

beforeAll(async () => {
  server = await startFeatureServer(agentFeatures);
  agents = new AgentBed(server);
  await agents.account('acme', 5);
});
afterAll(() => server?.close());

const call = (method: string, path: string, json?: unknown) => server.request(method, path, { credential: 'mk_acme', json });

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
});
