import { v7 as uuidv7 } from 'uuid';

import { AgentFixture } from '../../../test/support/agent-fixture.ts';
import { startFeatureServer } from '../../../test/support/feature-server.ts';
import { agentFeatures } from '../../../test/support/features.ts';
import type { TestResponse, RequestOptions, TestServer } from '../../../test/support/http-server.ts';
import { Keyring } from '../../crypto/keyring.ts';
import { Database } from '../../postgres/database/database.ts';
import { Variables } from './variables.service.ts';

const CANARY = 'canary-4711-very-secret';

let server: TestServer;
let agents: AgentFixture;
let variables: Variables;

beforeAll(async () => {
  server = await startFeatureServer(agentFeatures);
  agents = new AgentFixture(server);
  variables = server.app.get(Variables, { strict: false });
});
afterAll(() => server?.close());

const env = (method: string, agentId: string, key = '', options: RequestOptions = {}) =>
  server.request(method, `/api/v1/agents/${agentId}/env${key}`, { credential: 'mk_acme', ...options });

function expectProblem(answer: TestResponse, status: number, code: string): void {
  expect({ status: answer.status, code: answer.json?.code }).toEqual({ status, code });
}

it('sets, lists, replaces and removes variables; secrets are masked, and the container gets them in clear', async () => {
  const agentId = await agents.active('acme');
  const made = await env('POST', agentId, '', { json: { key: 'MODE', value: 'fast' } });
  expect([made.status, made.json]).toEqual([201, { key: 'MODE', value: 'fast', is_secret: false, updated_at: expect.any(String) }]);
  const hidden = await env('POST', agentId, '', { json: { key: 'API_KEY', value: CANARY, is_secret: true } });
  expect([hidden.status, hidden.json.value]).toEqual([201, 'cana••••••••']);

  expect((await env('GET', agentId)).json).toMatchObject([
    { key: 'API_KEY', value: 'cana••••••••', is_secret: true },
    { key: 'MODE', value: 'fast', is_secret: false },
  ]);
  expect(await variables.of(agentId)).toEqual({ MODE: 'fast', API_KEY: CANARY });
  expect(await variables.secretsOf(agentId)).toEqual([CANARY]);

  const replaced = await env('PUT', agentId, '/API_KEY', { json: { value: `${CANARY}-2` } });
  expect([replaced.status, replaced.json.is_secret, replaced.json.value]).toEqual([200, true, 'cana••••••••']);
  expect(await variables.secretsOf(agentId)).toEqual([`${CANARY}-2`]);
  expectProblem(await env('POST', agentId, '', { json: { key: 'API_KEY', value: 'x' } }), 400, 'invalid_request');

  expect((await env('DELETE', agentId, '/MODE')).status).toBe(204);
  expectProblem(await env('DELETE', agentId, '/MODE'), 404, 'env_var_not_found');
  expectProblem(await env('PUT', agentId, '/MODE', { json: { value: 'x' } }), 404, 'env_var_not_found');
  expect(await variables.of(agentId)).toEqual({ API_KEY: `${CANARY}-2` });
});

it('refuses an invalid variable, names the field, and writes nothing', async () => {
  const agentId = await agents.active('acme');
  const { revision } = await agents.load(agentId);
  const bad: unknown[] = [
    { key: 'PORT', value: 'x' },
    { key: 'MOORING_X', value: 'x' },
    { key: 'a-b', value: 'x' },
    { key: 'A', value: 7 },
    { key: 'A', value: 'x'.repeat(32_769) },
    { key: 'A' },
    { key: 'A', value: 'x', is_secret: 'yes' },
    { key: 'A', value: 'x', is_secret: null },
    { key: 'A', value: 'x', mask: 'y' },
    { key: 'A', value: 'a\0b' },
  ];
  for (const json of bad) expectProblem(await env('POST', agentId, '', { json }), 400, 'invalid_request');
  expect((await agents.load(agentId)).revision).toBe(revision);
});

it('neither shows variables to another account nor accepts any from it', async () => {
  const foreign = await agents.active('other');
  for (const id of [foreign, uuidv7(), 'none']) {
    expectProblem(await env('GET', id), 404, 'agent_not_found');
    expectProblem(await env('POST', id, '', { json: { key: 'A', value: 'x', is_secret: true } }), 404, 'agent_not_found');
    expectProblem(await env('PUT', id, '/A', { json: { value: 'x' } }), 404, 'agent_not_found');
    expectProblem(await env('DELETE', id, '/A'), 404, 'agent_not_found');
  }
  expectProblem(
    await env('POST', foreign, '', { credential: 'mk_other_deploy', json: { key: 'A', value: 'x' } }),
    403,
    'insufficient_scope',
  );
});

it('leaves no secret in the database, in responses or in the log, and makes all unreadable when the agent is deleted', async () => {
  const agentId = await agents.active('acme');
  await env('POST', agentId, '', { json: { key: 'API_KEY', value: CANARY, is_secret: true }, headers: { 'idempotency-key': uuidv7() } });
  const database = server.app.get(Database);
  const tables = await database.query<{ name: string }>(`select tablename as name from pg_tables where schemaname = 'public'`);
  for (const { name } of tables.filter((table) => table.name !== 'mooring_migration')) {
    const rows = await database.query<{ row: string }>(`select t::text as row from "${name}" t`);
    expect(rows.filter(({ row }) => row.includes('canary-4711'))).toEqual([]);
  }
  expect(server.logLines.filter((line) => line.includes('canary-4711'))).toEqual([]);

  await agents.says(agentId, { type: 'DeleteAgent', accountId: 'acme' });
  await server.app.get(Keyring).shred(agentId);
  expect(await variables.of(agentId)).toEqual({});
});
