import { AgentFixture } from '../../../test/support/agent-fixture.ts';
import { fixtureRuntime } from '../../../test/support/fixture-runtime.ts';
import { DockerFixture } from '../../../test/support/docker-fixture.ts';
import { startFeatureServer } from '../../../test/support/feature-server.ts';
import { runningFeatures } from '../../../test/support/features.ts';
import { type GitEntry, GitServer } from '../../../test/support/git-server.ts';
import type { TestServer } from '../../../test/support/http-server.ts';
import { importNodeImage } from '../../../test/support/images.ts';
import { ProvisioningModule } from './provisioning.module.ts';

/** A program that answers GET /healthz, and POST on `path` with what the expression `answer` makes of the body `asked`. */
const program = (path: string, answer: string, port = 'process.env.PORT') => `
  require('node:http').createServer((request, response) => {
    let text = '';
    request.on('data', (chunk) => (text += chunk));
    request.on('end', () => {
      response.setHeader('content-type', 'application/json');
      if (request.url === '/healthz') return response.end('{}');
      if (request.url === '/.well-known/agent-card.json') return response.end(JSON.stringify({
        protocolVersion: '0.3.0', name: 'x', url: 'http://localhost/rpc', version: '1', capabilities: {}, skills: [],
      }));
      if (request.method !== 'POST' || request.url !== '${path}') return response.writeHead(404).end('{}');
      const asked = JSON.parse(text);
      response.end(JSON.stringify(${answer}));
    });
  }).listen(${port});
`;
/** A program that says on which port it was asked. */
const ownProgram = (port?: string) => program('/messages', '{ response: String(request.socket.localPort) }', port);
const openai = program('/v1/chat/completions', '{ choices: [{ message: { role: "assistant", content: "by openai" } }] }');
const a2a = program(
  '/rpc',
  '{ jsonrpc: "2.0", id: asked.id, result: { kind: "message", role: "agent", messageId: "m", parts: [{ kind: "text", text: "by a2a" }] } }',
);
const nodeProject = (agent: string) => ({ 'package.json': '{"main": "agent.js"}', 'agent.js': agent });
const settings = (said: object) => JSON.stringify(said, null, 2);

describe('a repository that says of itself how it is run', () => {
  let git: GitServer;
  let bed: DockerFixture;
  let server: TestServer;
  let base: string;

  beforeAll(async () => {
    git = await GitServer.start(null);
    bed = await DockerFixture.open();
    base = await importNodeImage(bed.docker, `mooring-test-settings-${bed.instance}:1`);
    const features = runningFeatures(fixtureRuntime(bed));
    const environment = {
      MOORING_ALLOW_PRIVATE_SOURCES: git.host,
      MOORING_SHARED_IMAGES: base,
      MOORING_BASE_URL: 'https://mooring.example',
    };
    server = await startFeatureServer({ ...features, modules: [...features.modules, ProvisioningModule], environment });
    await new AgentFixture(server).account('acme', 100);
  });
  afterAll(async () => {
    await server?.close();
    await bed?.docker.getImage(base).remove();
    await bed?.close();
    await git?.close();
  });

  const call = (method: string, path: string, json?: unknown) =>
    server.request(method, path, { credential: 'mk_acme', json, headers: { prefer: 'wait=100' } });
  const provision = async (name: string, entries: Record<string, GitEntry>, more: object = {}) => {
    git.commit(name, entries);
    return (await call('POST', '/api/v1/provision', { name, repo_url: git.url(name), ...more })).json;
  };
  const dockerfile = (rest: string) => `FROM ${base}\nCOPY agent.js /agent.js\n${rest}`;
  const reply = async (id: string) => (await call('POST', `/api/agents/${id}/chat`, { message: 'hello' })).json.response as string;
  const latest = async (id: string) => (await call('GET', `/api/v1/agents/${id}/deployments`)).json[0];
  const deploy = async (id: string) => (await call('POST', `/api/v1/agents/${id}/deploy`)).json;
  const inside = async (id: string, variable: string) =>
    (await call('POST', `/api/agents/${id}/exec`, { command: ['node', '-p', `process.env.${variable}`] })).json.stdout.trim() as string;

  it.each([
    ['an OpenAI-compatible server', 'openai', openai, 'by openai'],
    ['an A2A server', 'a2a', a2a, 'by a2a'],
  ])('is talked to as %s', async (_, protocol, agent, answer) => {
    const { agent_id: id, status } = await provision(protocol, { ...nodeProject(agent), 'mooring.json': settings({ protocol }) });
    expect(status).toBe('active');
    expect(await reply(id)).toBe(answer);
    expect((await latest(id)).build_log).toContain(`Setting protocol: "${protocol}", as mooring.json says`);
  });

  it('is started in its folder, by its command, on its port and within its bounds', async () => {
    const said = { root: 'apps/api', start: ['node', 'agent.js', 'x'], port: 9000, health_path: 'tcp', memory_mb: 128, cpus: 0.5 };
    const { agent_id: id, status } = await provision('whole', {
      'mooring.json': settings(said),
      'apps/api/requirements.txt': '',
      'apps/api/package.json': '{}',
      'apps/api/agent.js': ownProgram(),
    });
    expect(status).toBe('active');
    expect(await reply(id)).toBe('9000');
    const { containers } = await bed.runtime.inspect(id);
    const { HostConfig } = await bed.docker.getContainer(containers[0]?.handle ?? '').inspect();
    expect([HostConfig.Memory, HostConfig.NanoCpus]).toEqual([128 * 1024 ** 2, 500_000_000]);
  });

  it('is reached on the one port that its Dockerfile exposes, publicly too, and told its public address', async () => {
    const entries = { Dockerfile: dockerfile('EXPOSE 3000\nCMD ["node", "/agent.js"]\n'), 'agent.js': ownProgram('3000') };
    const { agent_id: id, status } = await provision('exposed', entries);
    expect(status).toBe('active');
    expect(await reply(id)).toBe('3000');
    expect((await latest(id)).build_log).toContain('Setting port: 3000, the one port that the image exposes');
    expect(await inside(id, 'MOORING_PUBLIC_URL')).toBe('undefined');
    await call('PATCH', `/api/agents/${id}`, { public: true });
    expect(await server.request('GET', `/a/${id}/healthz`)).toMatchObject({ status: 200, text: '{}' });
    await call('POST', `/api/agents/${id}/restart`);
    expect(await inside(id, 'MOORING_PUBLIC_URL')).toBe(`https://mooring.example/a/${id}/`);
    expect(await reply(id)).toBe('3000');
  });

  it('is reached on 8080 if its Dockerfile exposes several ports', async () => {
    const entries = { Dockerfile: dockerfile('EXPOSE 3000 9000\nCMD ["node", "/agent.js"]\n'), 'agent.js': ownProgram() };
    expect(await reply((await provision('several', entries)).agent_id)).toBe('8080');
  });

  it('has its entry point and its command replaced by the start command', async () => {
    const start = ['node', '/agent.js'];
    const entries = { Dockerfile: dockerfile('ENTRYPOINT ["node", "/gone.js"]\nCMD run me\n'), 'agent.js': ownProgram() };
    const { agent_id: id, status } = await provision('entry', { ...entries, 'mooring.json': settings({ start }) });
    expect(status).toBe('active');
    expect(await reply(id)).toBe('8080');
  });

  it('is overruled by the agent’s settings, from the next deployment on, and a rollback runs as it ran then', async () => {
    const said = { ...nodeProject(ownProgram()), 'mooring.json': settings({ port: 3000 }) };
    const { agent_id: id } = await provision('overruled', said);
    expect(await reply(id)).toBe('3000');
    expect((await call('PATCH', `/api/v1/agents/${id}`, { port: 4000 })).json).toMatchObject({ status: 'active', port: 4000 });
    await call('POST', `/api/v1/agents/${id}/restart`);
    expect(await reply(id)).toBe('3000');
    expect(await deploy(id)).toMatchObject({ status: 'active' });
    expect(await reply(id)).toBe('4000');
    expect((await latest(id)).build_log).toContain("Setting port: 4000, as the agent's settings say; mooring.json says 3000");
    expect((await call('POST', `/api/v1/agents/${id}/rollback`)).json).toMatchObject({ status: 'active' });
    expect([await reply(id), await inside(id, 'PORT')]).toEqual(['3000', '3000']);
    await call('POST', `/api/v1/agents/${id}/sleep`);
    expect(await reply(id)).toBe('3000');
    await call('PATCH', `/api/v1/agents/${id}`, { port: null });
    expect(await deploy(id)).toMatchObject({ status: 'active' });
    expect(await reply(id)).toBe('3000');
  });

  it.each([
    [
      'a member that is not allowed',
      '{\n  "protocol": "openai",\n\n  "port": 0\n}',
      'mooring.json, line 4: port must be a whole number from 1 to 65535.',
    ],
    ['a member that is not known', '{\n  "prot": 1\n}', 'mooring.json, line 2: "prot" is not known; the members are protocol, port,'],
    [
      'more memory than the operator allows',
      '{"memory_mb": 513}',
      "mooring.json, line 1: memory_mb must be at most 512, the operator's bound",
    ],
    ['a folder that is not there', '{"root": "apps"}', 'The folder "apps", which the setting root names, is not there.'],
    ['a shell string as its start command', '{"start": ["sh", "-c", "node agent.js"]}', 'The start command is a shell string'],
  ])('fails with %s, and the message says where', async (_, file, message) => {
    const { agent_id: id, status } = await provision('bad', { ...nodeProject(ownProgram()), 'mooring.json': file });
    expect(status).toBe('error');
    expect((await latest(id)).message).toContain(message);
  });

  it('may be an image that is given by its name', async () => {
    const start = ['node', '-e', ownProgram()];
    const made = await call('POST', '/api/agents', { name: 'x', imageName: base, start, port: 5000, healthPath: 'tcp' });
    expect(made.json).toMatchObject({ status: 'active' });
    expect(await reply(made.json.id)).toBe('5000');
  });
});
