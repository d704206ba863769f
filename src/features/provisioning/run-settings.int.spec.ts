import { AgentFixture } from '../../../test/support/agent-fixture.ts';
import { startFeatureServer } from '../../../test/support/feature-server.ts';
import { agentFeatures } from '../../../test/support/features.ts';
import type { TestServer } from '../../../test/support/http-server.ts';
import { ProvisioningModule } from './provisioning.module.ts';

const said = {
  protocol: 'openai',
  port: 3000,
  health_path: 'tcp',
  start: ['node', 'server.js'],
  root: 'apps/api',
  start_timeout: 120,
  memory_mb: 256,
  cpus: 0.5,
  webhook_handshake: '/handshake',
  build_variables: ['NPM_TOKEN'],
};
const saidRest = {
  protocol: 'openai',
  port: 3000,
  healthPath: 'tcp',
  start: ['node', 'server.js'],
  root: 'apps/api',
  startTimeout: 120,
  memoryMb: 256,
  cpus: 0.5,
  webhookHandshake: '/handshake',
  buildVariables: ['NPM_TOKEN'],
};
const nothing = Object.fromEntries(Object.keys(said).map((name) => [name, null]));

describe('what an agent says of itself', () => {
  let server: TestServer;
  let agents: AgentFixture;

  beforeAll(async () => {
    const environment = { MOORING_AGENT_MEMORY_MAX_MB: '1024' };
    server = await startFeatureServer({ ...agentFeatures, modules: [...agentFeatures.modules, ProvisioningModule], environment });
    agents = new AgentFixture(server);
    await agents.account('acme', 1_000);
  });
  afterAll(() => server?.close());

  const call = (method: string, path: string, json?: unknown) => server.request(method, path, { credential: 'mk_acme', json });
  const created = async (more: object = {}) =>
    (await call('POST', '/api/v1/provision', { name: 'x', image_name: 'nginx:1', auto_deploy: false, ...more })).json.agent_id as string;

  it('is taken at its creation and shown, in the spelling of each API', async () => {
    const provisioned = await call('POST', '/api/v1/provision', { name: 'x', image_name: 'nginx:1', auto_deploy: false, ...said });
    expect(provisioned).toMatchObject({ status: 201, json: said });
    expect((await call('GET', `/api/agents/${provisioned.json.agent_id}`)).json).toMatchObject(saidRest);
    const made = await call('POST', '/api/agents', { name: 'x', templateId: 'hello', ...saidRest });
    expect(made).toMatchObject({ status: 201, json: saidRest });
    expect((await call('GET', `/api/v1/agents/${made.json.agent_id}`)).json).toMatchObject(said);
  });

  it('is null where it is not said', async () => {
    const id = await created();
    expect((await call('GET', `/api/v1/agents/${id}`)).json).toMatchObject(nothing);
    const { state } = await agents.load(id);
    expect(Object.keys(state?.settings ?? {})).not.toEqual(expect.arrayContaining(['port']));
  });

  it('is changed member by member, and taken back by null, on both APIs', async () => {
    const id = await created({ port: 3000 });
    expect((await call('PATCH', `/api/v1/agents/${id}`, { protocol: 'a2a', health_path: '/ready' })).json).toMatchObject({
      ...nothing,
      port: 3000,
      protocol: 'a2a',
      health_path: '/ready',
    });
    const changed = await call('PATCH', `/api/agents/${id}`, { port: null, healthPath: null, memoryMb: 1024, start: ['a'], name: 'y' });
    expect(changed).toMatchObject({
      status: 200,
      json: { name: 'y', protocol: 'a2a', port: null, healthPath: null, memoryMb: 1024, start: ['a'] },
    });
    const before = await agents.types(id);
    await call('PATCH', `/api/v1/agents/${id}`, { cpus: null, port: null, start: ['a'] });
    expect(await agents.types(id)).toEqual(before);
  });

  it.each([
    ['protocol', 'grpc'],
    ['port', 0],
    ['port', '3000'],
    ['health_path', 'healthz'],
    ['start', 'node server.js'],
    ['start', []],
    ['root', '../other'],
    ['start_timeout', 4],
    ['memory_mb', 1025],
    ['cpus', 2],
    ['webhook_handshake', 'tcp'],
    ['build_variables', ['A B']],
  ])('is refused by the name of the field in the caller’s spelling: %s %j', async (name, value) => {
    const id = await created();
    const before = await agents.types(id);
    const camel = name.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase());
    const answers = [
      [await call('POST', '/api/v1/provision', { name: 'x', image_name: 'nginx:1', [name]: value }), name],
      [await call('POST', '/api/agents', { name: 'x', templateId: 'hello', [camel]: value }), camel],
      [await call('PATCH', `/api/v1/agents/${id}`, { [name]: value }), name],
      [await call('PATCH', `/api/agents/${id}`, { [camel]: value }), camel],
    ] as const;
    for (const [answer, field] of answers)
      expect(answer).toMatchObject({ status: 400, json: { code: 'invalid_request', errors: [{ field, message: expect.any(String) }] } });
    expect(await agents.types(id)).toEqual(before);
  });

  it('names the operator’s bound that it exceeds', async () => {
    const refused = await call('PATCH', `/api/v1/agents/${await created()}`, { memory_mb: 2048 });
    expect(refused.json.errors).toEqual([
      { field: 'memory_mb', message: "must be at most 1024, the operator's bound (MOORING_AGENT_MEMORY_MAX_MB)" },
    ]);
  });

  it('has a schema that everybody may read', async () => {
    const { status, headers, text } = await server.request('GET', '/api/schemas/mooring.json');
    expect([status, headers.get('content-type')]).toEqual([200, expect.stringContaining('application/schema+json')]);
    const schema = JSON.parse(text) as { properties: Record<string, unknown> };
    expect(Object.keys(schema.properties)).toEqual(['$schema', ...Object.keys(said)]);
    expect(schema.properties['port']).toMatchObject({ type: 'integer', minimum: 1, maximum: 65_535 });
  });
});

describe('POST /api/agents', () => {
  let server: TestServer;
  let agents: AgentFixture;

  beforeAll(async () => {
    server = await startFeatureServer({ ...agentFeatures, modules: [...agentFeatures.modules, ProvisioningModule] });
    agents = new AgentFixture(server);
    await agents.account('acme', 1_000);
  });
  afterAll(() => server?.close());

  const create = (json: object) => server.request('POST', '/api/agents', { credential: 'mk_acme', json: { name: 'x', ...json } });
  const source = async (id: string) => {
    const { deployment } = (await agents.load(id)).state ?? {};
    return { source: deployment?.source, image: deployment?.imageName, url: deployment?.repoUrl, branch: deployment?.branch };
  };

  it('makes an agent of an image, or of a repository', async () => {
    const ofImage = await create({ imageName: 'nginx:1' });
    expect(ofImage).toMatchObject({ status: 201, json: { imageName: 'nginx:1', templateId: null } });
    expect(await source(ofImage.json.id)).toMatchObject({ source: 'docker', image: 'nginx:1' });
    const ofRepository = await create({ repoUrl: 'https://example.com/x.git', branch: 'next', imageName: 'nginx:1' });
    expect(ofRepository).toMatchObject({ status: 201, json: { repoUrl: 'https://example.com/x.git', branch: 'next' } });
    expect(await source(ofRepository.json.id)).toMatchObject({ source: 'github', url: 'https://example.com/x.git', branch: 'next' });
  });

  it.each([
    [{}, 'templateId'],
    [{ imageName: 'not an image' }, 'imageName'],
    [{ imageName: '127.0.0.1:5000/x' }, 'imageName'],
    [{ repoUrl: 'file:///etc' }, 'repoUrl'],
    [{ repoUrl: 'https://example.com/x.git', branch: '..' }, 'branch'],
  ])('refuses %j by the name of the field', async (json, field) => {
    expect(await create(json)).toMatchObject({ status: 400, json: { code: 'invalid_request', errors: [{ field }] } });
  });
});
