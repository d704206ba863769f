import { existsSync } from 'node:fs';
import { AgentFixture } from '../../../test/support/agent-fixture.ts';
import { emptyLock, pythonProgram } from '../../../test/support/agent-programs.ts';
import { startFeatureServer } from '../../../test/support/feature-server.ts';
import { runningFeatures } from '../../../test/support/features.ts';
import { type GitEntry, GitServer } from '../../../test/support/git-server.ts';
import { isReached, pnpmProject, uvProject, yarnProject } from '../../../test/support/locked-projects.ts';
import type { TestServer } from '../../../test/support/http-server.ts';
import { LocalRuntimeModule } from '../../../test/support/local-runtime-module.ts';
import { ProvisioningModule } from './provisioning.module.ts';

const nodeProgram = (version: string) => `
  require('node:http').createServer((request, response) => {
    request.resume().on('end', () => {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ response: '${version}' }));
    });
  }).listen(process.env.PORT, process.env.HOST);
`;

/** A program that learns its port from its command line and a variable in front of it only. */
const onPort = (version: string) => `
  const [, , port] = process.argv;
  if (port !== process.env.WEB) throw new Error('the port is ' + port + ' and ' + process.env.WEB);
  process.env.PORT = port;${nodeProgram(version)}`;

const certificates = '/etc/ssl/certs/ca-certificates.crt';

describe('an agent from a Git repository on a machine without Docker', () => {
  let git: GitServer;
  let server: TestServer;

  beforeAll(async () => {
    git = await GitServer.start('robot:canary-of-git');
    const features = runningFeatures(LocalRuntimeModule.forTest());
    const environment = {
      MOORING_ALLOW_PRIVATE_SOURCES: git.host,
      MOORING_BUILD_ENV: 'MIRROR_TOKEN',
      MIRROR_TOKEN: 'canary-of-the-mirror',
      // Packages may come through a proxy that only the machine trusts.
      ...(existsSync(certificates) ? { MOORING_BUILD_CA_FILE: certificates } : {}),
    };
    server = await startFeatureServer({ ...features, modules: [...features.modules, ProvisioningModule], environment });
    await new AgentFixture(server).account('acme', 100);
    const stored = await call('PUT', `/api/v1/source-credentials/git/${git.host}`, { username: 'robot', password: 'canary-of-git' });
    expect(stored.status).toBe(201);
  });
  afterAll(async () => {
    await server?.close();
    await git?.close();
  });

  const call = (method: string, path: string, json?: unknown) =>
    server.request(method, path, { credential: 'mk_acme', json, headers: { prefer: 'wait=100' } });
  const provision = async (name: string, entries: Record<string, GitEntry>) => {
    git.commit(name, entries);
    return (await call('POST', '/api/v1/provision', { name, repo_url: git.url(name) })).json;
  };
  const reply = async (id: string) => (await call('POST', `/api/agents/${id}/chat`, { message: 'hello' })).json.response as string;
  const latest = async (id: string) => (await call('GET', `/api/v1/agents/${id}/deployments`)).json[0];

  it.each<[string, Record<string, GitEntry>, string, string]>([
    ['package.json', { 'package.json': '{"main": "agent.js"}', 'agent.js': nodeProgram('from Node') }, 'a Node project', 'from Node'],
    ['requirements.txt', { 'requirements.txt': '', 'main.py': pythonProgram }, 'a Python project (requirements.txt)', 'from Python'],
    [
      'a Procfile',
      { Procfile: 'web: WEB=$PORT node agent.js $PORT', 'agent.js': onPort('by Procfile') },
      'a Procfile with web',
      'by Procfile',
    ],
    [
      'a start command in mooring.json',
      {
        'mooring.json': '{"start": ["node", "agent.js", "${PORT}"]}',
        'agent.js': `process.env.WEB = process.env.PORT;${onPort('by start')}`,
      },
      'a Node program',
      'by start',
    ],
  ])('is recognized by %s, built and answers', async (_, entries, found, answer) => {
    const { agent_id: id, status } = await provision('project', entries);
    expect((await latest(id)).build_log).toContain(`Found ${found}`);
    expect(status).toBe('active');
    expect(await reply(id)).toBe(answer);
  });

  it.each<[string, 'npm' | 'PyPI', Record<string, GitEntry>, string]>([
    ['uv.lock', 'PyPI', { ...uvProject, 'main.py': `import six\n${pythonProgram}` }, 'from Python'],
    ['pnpm-lock.yaml', 'npm', { ...pnpmProject, 'agent.js': `require('ms');${nodeProgram('by pnpm')}` }, 'by pnpm'],
    ['yarn.lock', 'npm', { ...yarnProject, 'agent.js': `require('ms');${nodeProgram('by Yarn')}` }, 'by Yarn'],
  ])('has the packages of its %s', async (name, registry, entries, answer) => {
    if (!(await isReached(registry, name))) return;
    const { agent_id: id, status } = await provision('locked', entries);
    const { build_log: log } = await latest(id);
    expect(log).toContain(name);
    expect({ status, log }).toMatchObject({ status: 'active' });
    expect(await reply(id)).toBe(answer);
  });

  it('takes up a push without installing again, and comes back by a rollback', async () => {
    const own = {
      'package.json': JSON.stringify({ main: 'agent.js', scripts: { build: 'node --version' } }),
      'package-lock.json': emptyLock,
    };
    const { agent_id: id } = await provision('pushed', { ...own, 'agent.js': nodeProgram('one') });
    expect(await reply(id)).toBe('one');
    expect((await latest(id)).build_log).toContain('Running npm ci');
    const pushed = git.commit('pushed', { ...own, 'agent.js': nodeProgram('two') });
    const redeploy = { agentId: id, source: 'github', repoUrl: git.url('pushed') };
    expect((await call('POST', '/api/deploy', redeploy)).json).toMatchObject({ status: 'active' });
    expect(await reply(id)).toBe('two');
    const { build_log: log, commit_sha: commit } = await latest(id);
    expect(commit).toBe(pushed);
    expect(log).toContain('Using cache: the packages were installed before');
    expect(log).not.toContain('Running npm ci');
    expect((await call('POST', `/api/v1/agents/${id}/rollback`)).json).toMatchObject({ status: 'active' });
    expect(await reply(id)).toBe('one');
  });

  it('is run in its folder, by its command and its protocol, as its mooring.json says', async () => {
    const answer = 'JSON.stringify({ choices: [{ message: { content: "by " + process.argv[2] } }] })';
    const program = `require('node:http').createServer((request, response) => {
      if (request.url === '/healthz') return response.writeHead(404).end();
      response.setHeader('content-type', 'application/json');
      request.resume().on('end', () => response.end(request.url === '/v1/chat/completions' ? ${answer} : '{}'));
    }).listen(process.env.PORT, process.env.HOST);`;
    const said = { root: 'agent', start: ['node', 'openai.js', 'openai'], protocol: 'openai', health_path: '/ready', port: 3000 };
    const { agent_id: id, status } = await provision('said', {
      'mooring.json': JSON.stringify(said),
      'agent/package.json': '{}',
      'agent/openai.js': program,
    });
    expect(status).toBe('active');
    expect(await reply(id)).toBe('by openai');
  });

  it('is built with the variables that build_variables names, secret ones too, which its log does not show', async () => {
    const build = `
      const { NPM_TOKEN, VITE_URL, OTHER } = process.env;
      console.log('token ' + NPM_TOKEN);
      require('node:fs').writeFileSync('built.json', JSON.stringify([NPM_TOKEN?.length, VITE_URL, OTHER]));
    `;
    const reading = nodeProgram('x').replace("'x'", "require('node:fs').readFileSync('built.json', 'utf8')");
    const entries = {
      'package.json': JSON.stringify({ main: 'agent.js', scripts: { build: 'node build.js' } }),
      'mooring.json': JSON.stringify({ build_variables: ['NPM_TOKEN', 'VITE_URL', 'MISSING'] }),
      'build.js': build,
      'agent.js': reading,
    };
    git.commit('named', entries);
    const { agent_id: id } = (await call('POST', '/api/v1/provision', { name: 'named', repo_url: git.url('named'), auto_deploy: false }))
      .json;
    const set = (key: string, value: string, secret = false) => call('POST', `/api/v1/agents/${id}/env`, { key, value, is_secret: secret });
    await set('NPM_TOKEN', 'canary-of-npm', true);
    await set('VITE_URL', 'https://example.com');
    await set('OTHER', 'not named');
    expect((await call('POST', `/api/v1/agents/${id}/deploy`)).json).toMatchObject({ status: 'active' });
    expect(JSON.parse(await reply(id))).toEqual(['canary-of-npm'.length, 'https://example.com', null]);
    const { build_log: log } = await latest(id);
    expect(log).toContain('token ••••••••');
    expect(log).toContain('The build gets no variable of these names, since the agent has none: MISSING');
    expect(log).not.toContain('canary-of-npm');

    await call('PUT', `/api/v1/agents/${id}/env/NPM_TOKEN`, { value: 'canary-of-npm-again' });
    expect((await call('POST', `/api/v1/agents/${id}/deploy`)).json).toMatchObject({ status: 'active' });
    expect(JSON.parse(await reply(id))[0]).toBe('canary-of-npm-again'.length);
  });

  it('keeps the operator’s settings for builds out of the log and the message', async () => {
    const build = `console.log('token', process.env.MIRROR_TOKEN); console.error('refused ' + process.env.MIRROR_TOKEN); process.exit(1)`;
    const { agent_id: id, status } = await provision('leaky', {
      'package.json': JSON.stringify({ main: 'agent.js', scripts: { build: 'node build.js' } }),
      'build.js': build,
      'agent.js': '',
    });
    expect(status).toBe('error');
    const record = await latest(id);
    expect(record.message).toContain('npm run build failed with exit code 1');
    expect(record.build_log).toContain('token ••••');
    expect(JSON.stringify(record)).not.toContain('canary-of-the-mirror');
  });

  it('is refused with a Dockerfile, and the message says what to install', async () => {
    const { agent_id: id, status } = await provision('image', { Dockerfile: 'FROM scratch\n', 'agent.js': '' });
    expect(status).toBe('error');
    expect((await latest(id)).message).toContain('an image needs a container engine: install Docker');
  });

  it('is refused if it is not a project, and the message lists the expected files', async () => {
    const { agent_id: id, status } = await provision('nothing', { 'agent.js': 'x' });
    expect(status).toBe('error');
    expect((await latest(id)).message).toContain('was not recognized');
  });
});
