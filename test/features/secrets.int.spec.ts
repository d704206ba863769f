import { Variables } from '../../src/features/environment/services.ts';
import { ProvisioningModule } from '../../src/features/provisioning/provisioning.module.ts';
import { AgentFixture } from '../support/agent-fixture.ts';
import { expectHidden } from '../support/secret-leak-probe.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { agentFeatures } from '../support/features.ts';
import type { RequestOptions, TestServer } from '../support/http-server.ts';
import { expectProblem } from '../support/sample-server.ts';

const CANARY = 'canary-4711/+very?secret';

let server: TestServer;
let agents: AgentFixture;
let variables: Variables;

beforeAll(async () => {
  server = await startFeatureServer({ ...agentFeatures, modules: [...agentFeatures.modules, ProvisioningModule] });
  agents = new AgentFixture(server);
  variables = server.app.get(Variables, { strict: false });
  for (const account of ['acme', 'other', 'full', 'races']) await agents.account(account, 100);
});
afterAll(() => server?.close());

const ask = (method: string, path: string, json?: unknown, options: RequestOptions = {}) =>
  server.request(method, path, { credential: 'mk_acme', ...(json === undefined ? {} : { json }), ...options });
const secret = (method: string, name: string, json?: unknown, credential = 'mk_acme') =>
  ask(method, `/api/v1/secrets${name === '' ? '' : `/${name}`}`, json, { credential });
const env = (method: string, agentId: string, json?: unknown, key = '', credential = 'mk_acme') =>
  ask(method, `/api/v1/agents/${agentId}/env${key === '' ? '' : `/${key}`}`, json, { credential });

describe('a secret of an account', () => {
  it('is stored, replaced, listed without its value, and removed', async () => {
    const made = await secret('PUT', 'openai', { value: 'sk-first-value' });
    expect([made.status, made.json]).toEqual([
      201,
      { name: 'openai', hint: 'sk-f••••••••', created_at: expect.any(String), updated_at: expect.any(String) },
    ]);
    const replaced = await secret('PUT', 'openai', { value: 'short' });
    expect([replaced.status, replaced.json.hint, replaced.json.created_at]).toEqual([200, '••••••••', made.json.created_at]);
    await secret('PUT', 'github', { value: 'ghp-0123456789' });
    expect((await secret('GET', '')).json).toMatchObject([
      { name: 'github', hint: 'ghp-••••••••', used_by: 0 },
      { name: 'openai', hint: '••••••••', used_by: 0 },
    ]);
    expect((await secret('DELETE', 'openai')).status).toBe(204);
    expectProblem(await secret('DELETE', 'openai'), 404, 'not_found');
    expect((await secret('GET', '')).json).toMatchObject([{ name: 'github' }]);
  });

  it('is not stored under a bad name or with a bad value, and the field is named', async () => {
    for (const [name, body, field] of [
      ['Open', { value: 'x' }, 'name'],
      ['a%2Fb', { value: 'x' }, 'name'],
      ['a'.repeat(64), { value: 'x' }, 'name'],
      ['a', { value: 7 }, 'value'],
      ['a', {}, 'value'],
      ['a', { value: 'x'.repeat(32_769) }, 'value'],
      ['a', { value: 'a\0b' }, 'value'],
      ['a', { value: 'x', hint: 'y' }, 'hint'],
    ] as const) {
      const answer = await secret('PUT', name, body);
      expectProblem(answer, 400, 'invalid_request');
      expect(answer.json.errors).toMatchObject([{ field }]);
    }
    expectProblem(await secret('DELETE', 'No Such'), 404, 'not_found');
  });

  it('is for keys with the scope secrets, and each account has its own', async () => {
    await secret('PUT', 'mine', { value: 'a value of acme' });
    for (const [method, name, body] of [
      ['GET', '', undefined],
      ['PUT', 'mine', { value: 'x' }],
      ['DELETE', 'mine', undefined],
    ] as const)
      expectProblem(await secret(method, name, body, 'mk_acme_manage'), 403, 'insufficient_scope');
    expect((await secret('GET', '', undefined, 'mk_acme_secrets')).status).toBe(200);
    expect((await secret('GET', '', undefined, 'mk_other')).json).toEqual([]);
    expectProblem(await secret('DELETE', 'mine', undefined, 'mk_other'), 404, 'not_found');
    const foreign = await agents.active('other');
    expectProblem(await env('POST', foreign, { key: 'A', secret: 'mine' }, '', 'mk_other'), 400, 'secret_not_found');
  });

  it('is refused in addition to 100 others, for any number of requests at the same time', async () => {
    const answers = await Promise.all(Array.from({ length: 110 }, (_, index) => secret('PUT', `s${index}`, { value: 'x' }, 'mk_full')));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(100);
    expectProblem(answers.find(({ status }) => status !== 201) as (typeof answers)[number], 400, 'invalid_request');
  });
});

describe('a variable of an agent', () => {
  it('has the present value of a secret, and is listed with its name and mask', async () => {
    const agentId = await agents.active('acme');
    await secret('PUT', 'rotating', { value: 'the-first-value' });
    const set = await env('POST', agentId, { key: 'TOKEN', secret: 'rotating' });
    expect([set.status, set.json]).toEqual([
      201,
      { key: 'TOKEN', value: 'the-••••••••', is_secret: true, secret: 'rotating', updated_at: expect.any(String) },
    ]);
    expect(await variables.of(agentId)).toEqual({ TOKEN: 'the-first-value' });
    expect(await variables.secretsOf(agentId)).toEqual(['the-first-value']);
    await secret('PUT', 'rotating', { value: 'new-second-value' });
    expect(await variables.of(agentId)).toEqual({ TOKEN: 'new-second-value' });
    expect((await env('GET', agentId)).json).toMatchObject([{ key: 'TOKEN', value: 'new-••••••••', secret: 'rotating' }]);
    expect((await secret('GET', '')).json).toContainEqual(expect.objectContaining({ name: 'rotating', used_by: 1 }));
  });

  it('can change between a value of its own and a secret, but never becomes readable again', async () => {
    const agentId = await agents.active('acme');
    await secret('PUT', 'switch', { value: 'from the secret' });
    await env('POST', agentId, { key: 'A', value: 'readable' });
    expect((await env('PUT', agentId, { secret: 'switch' }, 'A')).json).toMatchObject({ is_secret: true, secret: 'switch' });
    expect(await variables.of(agentId)).toEqual({ A: 'from the secret' });
    expectProblem(await env('POST', agentId, { key: 'A', value: 'readable' }), 400, 'invalid_request');
    expect((await env('PUT', agentId, { value: 'an own value' }, 'A')).json).toMatchObject({ is_secret: true, value: 'an o••••••••' });
    expect((await env('GET', agentId)).json[0]).not.toHaveProperty('secret');
    expect((await secret('DELETE', 'switch')).status).toBe(204);
    expectProblem(await env('PUT', agentId, { secret: 'rotating' }, 'NONE'), 404, 'env_var_not_found');
  });

  it('is refused with an unknown secret, with a value beside the secret, and as readable, and nothing is written', async () => {
    const agentId = await agents.active('acme');
    const { revision } = await agents.load(agentId);
    await secret('PUT', 'known', { value: 'x' });
    for (const [body, code, field] of [
      [{ key: 'A', secret: 'unknown' }, 'secret_not_found', 'secret'],
      [{ key: 'A', secret: 'known', value: 'x' }, 'invalid_request', 'secret'],
      [{ key: 'A', secret: 'known', is_secret: false }, 'invalid_request', 'is_secret'],
      [{ key: 'A', secret: 'Not A Name' }, 'invalid_request', 'secret'],
      [{ key: 'A', secret: null }, 'invalid_request', 'secret'],
      [{ key: 'A' }, 'invalid_request', 'value'],
    ] as const) {
      const answer = await env('POST', agentId, body);
      expectProblem(answer, 400, code);
      expect(answer.json.errors).toContainEqual(expect.objectContaining({ field }));
    }
    expect((await agents.load(agentId)).revision).toBe(revision);
  });

  it('of a new agent can take its value from a secret too, on both surfaces', async () => {
    await secret('PUT', 'birth', { value: 'given at birth' });
    const asked = { name: 'helper', image_name: 'nginx:1', env_vars: { A: '1', B: { secret: 'birth' } } };
    const made = await ask('POST', '/api/v1/provision', asked);
    expect(made.status).toBe(201);
    expect(await variables.of(made.json.agent_id)).toEqual({ A: '1', B: 'given at birth' });
    const rest = await ask('POST', '/api/agents', { name: 'hi', templateId: 'hello', envVars: { B: { secret: 'birth' } } });
    expect(rest.status).toBe(201);
    expect(await variables.of(rest.json.id)).toEqual({ B: 'given at birth' });

    const unknown = { A: { secret: 'nowhere' } };
    for (const [path, body, field] of [
      ['/api/v1/provision', { ...asked, env_vars: unknown }, 'env_vars'],
      ['/api/agents', { name: 'hi', templateId: 'hello', envVars: unknown }, 'envVars'],
    ] as const) {
      const answer = await ask('POST', path, body);
      expectProblem(answer, 400, 'secret_not_found');
      expect(answer.json.errors).toEqual([{ field, message: 'there is no secret nowhere in the account' }]);
    }
  });
});

describe('a secret that agents use', () => {
  it('is not removed, and the refusal names the agents, until no variable refers to it', async () => {
    await secret('PUT', 'shared', { value: 'x' });
    const using = [await agents.active('acme'), await agents.active('acme'), await agents.active('acme')];
    for (const agentId of using) await env('POST', agentId, { key: 'A', secret: 'shared' });
    await env('POST', using[0] as string, { key: 'B', secret: 'shared' });
    const refused = await secret('DELETE', 'shared');
    expectProblem(refused, 409, 'secret_in_use');
    expect([refused.json.agent_ids, refused.json.used_by]).toEqual([using.toSorted(), 3]);
    for (const agentId of using) expect(refused.json.detail).toContain(agentId);

    await env('DELETE', using[0] as string, undefined, 'A');
    expect((await secret('DELETE', 'shared')).json.used_by).toBe(3);
    await env('DELETE', using[0] as string, undefined, 'B');
    await env('PUT', using[1] as string, { value: 'y' }, 'A');
    expect((await secret('DELETE', 'shared')).json.agent_ids).toEqual([using[2]]);
    await agents.says(using[2] as string, { type: 'DeleteAgent', accountId: 'acme' });
    expect((await secret('DELETE', 'shared')).status).toBe(204);
  });

  it('is there or the reference is refused, unless both come at the same moment; then the boot says what is missing', async () => {
    const agentId = await agents.active('races');
    for (let round = 0; round < 10; round += 1) {
      await secret('PUT', 'raced', { value: 'x' }, 'mk_races');
      const [removed, set] = await Promise.all([
        secret('DELETE', 'raced', undefined, 'mk_races'),
        env('POST', agentId, { key: 'A', secret: 'raced' }, '', 'mk_races'),
      ]);
      expect([204, 409]).toContain(removed.status);
      expect([201, 400]).toContain(set.status);
      if (removed.status === 204 && set.status === 201)
        await expect(variables.of(agentId)).rejects.toThrow('The variable A takes its value from the secret raced, which does not exist.');
      else if (set.status === 201) expect(await variables.of(agentId)).toEqual({ A: 'x' });
      if (set.status === 201) await env('DELETE', agentId, undefined, 'A', 'mk_races');
    }
  });
});

it('leaves no value of a secret in the database, in events, in responses or in the log', async () => {
  const agentId = await agents.active('acme');
  const answers = [
    await secret('PUT', 'canary', { value: CANARY }),
    await env('POST', agentId, { key: 'A', secret: 'canary' }),
    await env('GET', agentId),
    await secret('GET', ''),
    await secret('DELETE', 'canary'),
    await ask('GET', `/api/v1/agents/${agentId}/history`),
    await ask('GET', '/api/v1/audit'),
  ];
  await expectHidden(server, CANARY, answers);
});
