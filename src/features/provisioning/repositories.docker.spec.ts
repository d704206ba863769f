import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { AgentFixture } from '../../../test/support/agent-fixture.ts';
import { fixtureRuntime } from '../../../test/support/fixture-runtime.ts';
import { DockerFixture } from '../../../test/support/docker-fixture.ts';
import { startFeatureServer } from '../../../test/support/feature-server.ts';
import { runningFeatures } from '../../../test/support/features.ts';
import { emptyLock, pythonProgram } from '../../../test/support/agent-programs.ts';
import { type GitEntry, GitServer } from '../../../test/support/git-server.ts';
import { isReached, pnpmProject, poetryProject, uvProject, yarnProject } from '../../../test/support/locked-projects.ts';
import type { TestServer } from '../../../test/support/http-server.ts';
import { importNodeImage } from '../../../test/support/images.ts';
import { until } from '../../../test/support/until.ts';
import { RESOLVE_HOST } from '../agents/services.ts';
import { Config } from '../../kernel/config/config.ts';
import { Templates } from '../templates/index.ts';
import { ProvisioningModule } from './provisioning.module.ts';

const agentProgram = (version: string) => `
  require('node:http').createServer((request, response) => {
    let text = '';
    request.on('data', (chunk) => (text += chunk));
    request.on('end', () => {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ response: '${version}' }));
    });
  }).listen(process.env.PORT);
`;

/** A template whose agent answers only on its own port and paths, and only by the protocol that it names. */
const frameworkTemplate = {
  'template.json': JSON.stringify({
    id: 'openclaw',
    name: 'OpenClaw',
    description: 'A stand-in without packages.',
    source: { kind: 'program', language: 'node', start: ['node', 'project/serve.mjs'] },
    port: 9191,
    health: { path: '/alive' },
    protocol: { name: 'openai', path: '/ask' },
  }),
  'project/serve.mjs': `
    import { createServer } from 'node:http';
    createServer((request, response) => {
      const ask = request.method + ' ' + request.url;
      if (!['GET /alive', 'POST /ask'].includes(ask)) return response.writeHead(404).end();
      response.setHeader('content-type', 'application/json');
      request.resume().on('end', () => response.end(JSON.stringify({ choices: [{ message: { content: 'openclaw at ' + process.env.PORT } }] })));
    }).listen(9191);
  `,
};
/** This machine's own certificates, with which it reaches the registries. */
const certificates = '/etc/ssl/certs/ca-certificates.crt';
const LOCKED_MS = 170_000;
const unresolvable = JSON.stringify({ dependencies: { nothing: 'file:missing.tgz' } });

describe('an agent from a Git repository', () => {
  let git: GitServer;
  let bed: DockerFixture;
  let agents: AgentFixture;
  let server: TestServer;
  let base: string;
  /** The addresses to which the name moves.example leads, one for each time that it is resolved, before it leads to this machine. */
  let movesTo: string[] = [];

  beforeAll(async () => {
    git = await GitServer.start('robot:canary-of-git');
    bed = await DockerFixture.open();
    base = await importNodeImage(bed.docker, `mooring-test-repository-${bed.instance}:1`);
    const runtime = fixtureRuntime(bed, {
      provide: RESOLVE_HOST,
      useValue: async (host: string) => [host === 'moves.example' ? (movesTo.shift() ?? '127.0.0.1') : host],
    });
    const environment = {
      MOORING_ALLOW_PRIVATE_SOURCES: git.host,
      MOORING_SHARED_IMAGES: base,
      ...(existsSync(certificates) ? { MOORING_BUILD_CA_FILE: certificates } : {}),
    };
    const features = runningFeatures(runtime);
    server = await startFeatureServer({ ...features, modules: [...features.modules, ProvisioningModule], environment });
    agents = new AgentFixture(server);
    await agents.account('acme', 100);
    const stored = await call('PUT', `/api/v1/source-credentials/git/${git.host}`, { username: 'robot', password: 'canary-of-git' });
    expect(stored.status).toBe(201);
  });

  afterAll(async () => {
    await server?.close();
    await bed?.docker.getImage(base).remove();
    await bed?.close();
    await git?.close();
  });

  const call = (method: string, path: string, json?: unknown) =>
    server.request(method, path, { credential: 'mk_acme', json, headers: { prefer: 'wait=100' } });
  const files = (
    version: string,
    dockerfile = `FROM ${base}\nCOPY agent.js /agent.js\nCMD ["node", "/agent.js"]\n`,
  ): Record<string, GitEntry> => ({
    Dockerfile: dockerfile,
    'agent.js': agentProgram(version),
  });
  const reply = async (id: string) => (await call('POST', `/api/agents/${id}/chat`, { message: 'hello' })).json.response as string;
  const latest = async (id: string) => (await call('GET', `/api/v1/agents/${id}/deployments`)).json[0];
  const folder = () => join(server.app.get(Config).dataDir, 'repositories');

  it('is built from its Dockerfile, deployed anew after a push, and brought back by a rollback', async () => {
    const first = git.commit('agent', files('one'));
    const made = await call('POST', '/api/v1/provision', { name: 'x', repo_url: git.url('agent') });
    const { agent_id: id, deployment_id: firstId } = made.json as { agent_id: string; deployment_id: string };
    expect(made.json).toMatchObject({ status: 'active' });
    expect(await reply(id)).toBe('one');
    expect(await latest(id)).toMatchObject({ status: 'success', source: 'github', branch: 'main', commit_sha: first });
    expect((await latest(id)).build_log).toContain(`Fetched the commit ${first}`);

    const second = git.commit('agent', files('two'), 'next');
    const redeploy = { agentId: id, source: 'github', repoUrl: git.url('agent'), branch: 'next' };
    expect((await call('POST', '/api/deploy', redeploy)).json).toMatchObject({ status: 'active' });
    expect(await reply(id)).toBe('two');
    expect(await latest(id)).toMatchObject({ branch: 'next', commit_sha: second });

    expect((await call('POST', '/api/deploy', { agentId: id, source: 'github', branch: 'next' })).json).toMatchObject({ status: 'active' });
    expect(await latest(id)).toMatchObject({ branch: 'next', commit_sha: second });

    expect((await call('POST', `/api/v1/agents/${id}/rollback`, { deployment_id: firstId })).json).toMatchObject({ status: 'active' });
    expect(await reply(id)).toBe('one');
    expect(await latest(id)).toMatchObject({ source: 'github', branch: 'main', commit_sha: first });
    const { text } = await call('GET', `/api/v1/agents/${id}/history`);
    expect(text).toContain(second);
    expect(text).not.toContain('canary-of-git');
    expect(existsSync(folder()) ? readdirSync(folder()) : []).toEqual([]);
  });

  it.each<[string, Record<string, GitEntry>, string, string]>([
    [
      'package.json',
      { 'package.json': '{"main": "agent.js"}', 'agent.js': agentProgram('from Node') },
      'a Node project (package.json)',
      'from Node',
    ],
    ['requirements.txt', { 'requirements.txt': '', 'main.py': pythonProgram }, 'a Python project (requirements.txt)', 'from Python'],
    [
      'a Procfile',
      { Procfile: 'web: node agent.js $PORT', 'agent.js': agentProgram('by Procfile'), 'main.py': '' },
      'a Procfile with web',
      'by Procfile',
    ],
  ])('without a Dockerfile is recognized by %s, built and answers', async (_, entries, found, answer) => {
    git.commit('project', entries);
    const { json } = await call('POST', '/api/v1/provision', { name: 'x', repo_url: git.url('project') });
    expect((await latest(json.agent_id)).build_log).toContain(`Found ${found}`);
    expect(json).toMatchObject({ status: 'active' });
    expect(await reply(json.agent_id)).toBe(answer);
  });

  it.each<[string, 'npm' | 'PyPI', Record<string, GitEntry>, string]>([
    ['uv.lock', 'PyPI', { ...uvProject, 'main.py': `import six\n${pythonProgram}` }, 'from Python'],
    ['poetry.lock', 'PyPI', { ...poetryProject, 'main.py': `import six\n${pythonProgram}` }, 'from Python'],
    ['pnpm-lock.yaml', 'npm', { ...pnpmProject, 'agent.js': `require('ms');${agentProgram('by pnpm')}` }, 'by pnpm'],
    ['yarn.lock', 'npm', { ...yarnProject, 'agent.js': `require('ms');${agentProgram('by Yarn')}` }, 'by Yarn'],
  ])('has the packages of its %s', async (name, registry, entries, answer) => {
    if (!(await isReached(registry, name))) return;
    git.commit('locked', entries);
    const { json } = await call('POST', '/api/v1/provision', { name: 'x', repo_url: git.url('locked') });
    // Poetry consists of many packages, which take long on a busy machine.
    const settled = async () => ((await latest(json.agent_id)).completed_at === null ? undefined : latest(json.agent_id));
    const { status, build_log: log } = await until('the deployment settles', settled, { timeoutMs: LOCKED_MS });
    expect(log).toContain(name);
    expect({ status, log }).toMatchObject({ status: 'success' });
    expect(await reply(json.agent_id)).toBe(answer);
  });

  it('without a Dockerfile does not install its packages again after a push that changes its program', async () => {
    const own = {
      'package.json': '{"main": "agent.js", "scripts": {"build": "node --version"}, "dependencies": {}}',
      'package-lock.json': emptyLock,
    };
    git.commit('pushed', { ...own, 'agent.js': agentProgram('one') });
    const { json } = await call('POST', '/api/v1/provision', { name: 'x', repo_url: git.url('pushed') });
    expect(await reply(json.agent_id)).toBe('one');
    expect((await latest(json.agent_id)).build_log).toContain('Running npm ci');

    const pushed = git.commit('pushed', { ...own, 'agent.js': agentProgram('two') });
    expect(
      (await call('POST', '/api/deploy', { agentId: json.agent_id, source: 'github', repoUrl: git.url('pushed') })).json,
    ).toMatchObject({
      status: 'active',
    });
    expect(await reply(json.agent_id)).toBe('two');
    const { build_log: log, commit_sha } = await latest(json.agent_id);
    expect(commit_sha).toBe(pushed);
    expect(log).toContain('Using cache: the packages were installed before');
    expect(log).not.toContain('Running npm ci');
    expect(log).toContain('Running npm run build');
  });

  it('without a branch main is built from its default branch, with its readable variables, and its files carry the time of the commit', async () => {
    git.time = '2020-01-02T03:04:05Z';
    const build = `require('node:fs').writeFileSync('built', [process.env.API_URL, process.env.TOKEN].join())`;
    const facts = `require('node:fs').readFileSync('built', 'utf8') + require('node:fs').statSync(__filename).mtime.toISOString()`;
    const entries = {
      'package.json': JSON.stringify({ main: 'agent.js', scripts: { build: 'node build.js' } }),
      'build.js': build,
      'agent.js': agentProgram(`' + ${facts} + '`),
    };
    const commit = git.commit('default', entries, 'master');
    git.makeDefault('default', 'master');
    git.time = null;
    await call('PUT', '/api/v1/secrets/token', { value: 'canary-of-a-build' });
    const environment = { API_URL: 'https://api.example.com', TOKEN: { secret: 'token' } };
    const { json } = await call('POST', '/api/v1/provision', { name: 'x', repo_url: git.url('default'), env_vars: environment });
    const { build_log: log } = await latest(json.agent_id);
    expect(log).toContain(`Fetched the commit ${commit} of its default branch master, since it has no main`);
    expect(json).toMatchObject({ status: 'active' });
    expect(await reply(json.agent_id)).toBe('https://api.example.com,2020-01-02T03:04:05.000Z');
  });

  it('of a framework is run with the port, health check and protocol of its template, until it is no more of that framework', async () => {
    const templates = mkdtempSync(join(tmpdir(), 'mooring-templates-'));
    mkdirSync(join(templates, 'openclaw/project'), { recursive: true });
    for (const [name, content] of Object.entries(frameworkTemplate)) writeFileSync(join(templates, 'openclaw', name), content);
    // The installation's own templates for frameworks need packages of a registry. This one stands in for them all.
    Object.assign(server.app.get(Templates), Templates.read(templates));
    git.commit('framework', { 'openclaw.json': '{}' });
    const made = await call('POST', '/api/v1/provision', { name: 'x', repo_url: git.url('framework') });
    const { agent_id: id, deployment_id: first } = made.json as { agent_id: string; deployment_id: string };
    expect(made.json).toMatchObject({ status: 'active' });
    expect(await reply(id)).toBe('openclaw at 9191');
    expect((await latest(id)).build_log).toContain('Found an OpenClaw project (openclaw.json)');

    git.commit('framework', { 'package.json': '{"main": "agent.js"}', 'agent.js': agentProgram('plain') });
    expect((await call('POST', `/api/v1/agents/${id}/deploy`)).json).toMatchObject({ status: 'active' });
    expect(await reply(id)).toBe('plain');

    expect((await call('POST', `/api/v1/agents/${id}/rollback`, { deployment_id: first })).json).toMatchObject({ status: 'active' });
    expect(await reply(id)).toBe('openclaw at 9191');
    rmSync(templates, { recursive: true });
  });

  it.each([
    ['without anything that is known', { 'agent.js': 'x' }, 'was not recognized'],
    ['with a link for a Dockerfile', { Dockerfile: { link: 'other' }, other: 'FROM scratch' }, 'was not recognized'],
    [
      'whose packages can’t be installed',
      { 'package.json': unresolvable, 'index.js': '' },
      'npm install failed with exit code 254: npm error enoent ENOENT',
    ],
    ['with a link to the root', { Dockerfile: 'FROM scratch', link: { link: '/' } }, 'leads out of it'],
    ['that has the engine fetch an address', { Dockerfile: 'FROM scratch\nADD http://169.254.169.254/ /x\n' }, 'ADD that may fetch'],
    ['on an image of a private registry', { Dockerfile: 'FROM 127.0.0.1:5000/x\n' }, 'private address'],
    ['on an image by its id', { Dockerfile: `FROM sha256:${'0'.repeat(64)}\n` }, 'not the name of an image'],
  ] as [string, Record<string, GitEntry>, string][])('fails %s, with the reason', async (_, entries, reason) => {
    git.commit('broken', entries);
    const { json } = await call('POST', '/api/v1/provision', { name: 'x', repo_url: git.url('broken') });
    expect(json).toMatchObject({ status: 'error' });
    const record = await latest(json.agent_id);
    expect(record).toMatchObject({ status: 'failed', message: expect.stringContaining(reason) });
    expect(record.build_log.split('\n').at(-1)).toContain(reason);
    expect(readdirSync(folder())).toEqual([]);
  });

  it('may not be built on an image that only another account or the installation has', async () => {
    const { Id } = await bed.docker.getImage(bed.image).inspect();
    git.commit('taken', { Dockerfile: `FROM ${bed.image}\n` });
    const { json } = await call('POST', '/api/v1/provision', { name: 'x', repo_url: git.url('taken') });
    expect(json).toMatchObject({ status: 'error' });
    expect((await latest(json.agent_id)).build_log).toContain(`Pulling ${bed.image}`);
    expect(JSON.stringify(json)).not.toContain(Id);
  });

  it('is not fetched if its host led to a public address at the request and leads to this machine since, which is not touched', async () => {
    const touched: string[] = [];
    const listener = createServer((socket) => touched.push(socket.remoteAddress ?? '')).listen(0, '127.0.0.1');
    await once(listener, 'listening');
    movesTo = ['93.184.216.34'];
    const repo_url = `https://moves.example:${(listener.address() as AddressInfo).port}/x.git`;
    const { json } = await call('POST', '/api/v1/provision', { name: 'x', repo_url });
    expect(json).toMatchObject({ status: 'error' });
    expect(movesTo).toEqual([]);
    expect((await latest(json.agent_id)).message).toContain('has a private address');
    expect(touched).toEqual([]);
    listener.close();
  });

  it('is refused at the request in the caller’s spelling, and nothing is written', async () => {
    const id = await agents.created('acme', { image: 'docker', image_name: base, template_id: null });
    const before = await agents.types(id);
    for (const bad of ['https://169.254.169.254/x.git', 'http://example.com/x.git', 'file:///etc', 'ext::sh', 'https://u:canary@host/x']) {
      const answers = [
        [await call('POST', '/api/deploy', { agentId: id, source: 'github', repoUrl: bad }), 'repoUrl'],
        [await call('POST', `/api/v1/agents/${id}/deploy`, { repo_url: bad }), 'repo_url'],
        [await call('PATCH', `/api/v1/agents/${id}`, { repo_url: bad }), 'repo_url'],
        [await call('POST', '/api/v1/provision', { name: 'x', repo_url: bad }), 'repo_url'],
        [await call('PATCH', `/api/agents/${id}`, { repoUrl: bad }), 'repoUrl'],
        [await call('POST', '/api/agents', { name: 'x', repoUrl: bad }), 'repoUrl'],
      ] as const;
      for (const [answer, field] of answers) {
        expect(answer).toMatchObject({ status: 400, json: { code: 'invalid_request', errors: [{ field }] } });
        expect(answer.text).not.toContain('canary');
      }
    }
    for (const source of ['github', 'template']) {
      const field = { github: 'repoUrl', template: 'templateId' }[source];
      const refused = { status: 400, json: { code: 'invalid_request', errors: [{ field }] } };
      expect(await call('POST', '/api/deploy', { agentId: id, source })).toMatchObject(refused);
    }
    expect(await call('POST', `/api/v1/agents/${id}/deploy`, { branch: 'x' })).toMatchObject({
      status: 400,
      json: { errors: [{ field: 'branch' }] },
    });
    expect(await agents.types(id)).toEqual(before);
  });
});
