import { existsSync } from 'node:fs';

import { ProvisioningModule } from '../../src/features/provisioning/provisioning.module.ts';
import { broughtRepositories, BroughtAgents, broughtRepository, type Outcome, TwoAtATime } from '../support/brought-repositories.ts';
import { DockerFixture } from '../support/docker-fixture.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { runningFeatures } from '../support/features.ts';
import { fixtureRuntime } from '../support/fixture-runtime.ts';
import { type GitEntry, GitServer } from '../support/git-server.ts';
import type { TestServer } from '../support/http-server.ts';
import { importNodeImage } from '../support/images.ts';
import { LocalRuntimeModule } from '../support/local-runtime-module.ts';
import { isReached } from '../support/locked-projects.ts';

/** Repositories as people bring them, from small ones to those of frameworks: each chats, or its owner is told what is wrong. */

/** This machine's own certificates, with which it reaches the registries. */
const certificates = '/etc/ssl/certs/ca-certificates.crt';
/** The base image that the Dockerfiles of the repositories name. */
const NAMED_BASE = 'node-base';

interface Row {
  repository: string;
  /** The end of the sentence that begins with "an agent of the repository". */
  does: string;
  /** The registry that its packages come from. */
  registry?: 'npm' | 'PyPI';
  /** Files beside those of the folder. */
  files?: Record<string, GitEntry>;
  branch?: string;
  expected: Partial<Outcome>;
}

const chats = (reply: string): Partial<Outcome> => ({ status: 'active', chat: reply });
const contains = (text: string) => expect.stringContaining(text) as string;
const npm = { registry: 'npm', expected: chats('got: hello') } as const;
const python = { registry: 'PyPI', expected: chats('py got: hello') } as const;

const projects: Row[] = [
  { repository: 'pnpm-nested', does: 'whose build calls pnpm has it there', ...npm },
  { repository: 'yarn-nested', does: 'whose build calls yarn has it there', ...npm },
  { repository: 'pnpm-mono', does: 'that is a workspace has pnpm at its start', ...npm },
  { repository: 'tsx-dev', does: 'is started by a development package', ...npm },
  { repository: 'husky-prep', does: 'prepares itself with a development package', ...npm },
  {
    repository: 'stale-lock',
    does: 'with an old lock file is installed by its packageManager',
    files: { 'yarn.lock': 'of an earlier manager' },
    ...npm,
  },
  { repository: 'bun-app', does: 'is installed and started by Bun', ...npm },
  { repository: 'pipenv-app', does: 'has the packages of its Pipfile', ...python },
  { repository: 'dynamic-deps', does: 'has the packages that setuptools finds', ...python },
  { repository: 'setup-py', does: 'has the packages of its setup.py', ...python },
  { repository: 'poetry-nolock', does: 'has the packages of Poetry without a lock file', ...python },
  { repository: 'uv-ws', does: 'has the members of its workspace', ...python },
  {
    repository: 'fastapi-plain',
    does: 'without a main block is served by uvicorn',
    registry: 'PyPI',
    expected: chats('fastapi got: hello'),
  },
  { repository: 'lg-new', does: 'whose graph has no messages says so in a chat', registry: 'PyPI', expected: chats(contains('message')) },
  { repository: 'lg-req', does: 'has the requirements.txt of its agent’s folder', registry: 'PyPI', expected: chats('echo: hello 3.10') },
  {
    repository: 'oai-server',
    does: 'speaks the protocol that its mooring.json names',
    files: { 'mooring.json': '{"protocol": "openai"}\n' },
    expected: chats('openai says hi'),
  },
  {
    repository: 'r-master',
    does: 'without a branch main is deployed from its default branch',
    branch: 'master',
    expected: { ...chats('got: hello'), buildLog: contains('its default branch master') },
  },
];

const dockerfiles: Row[] = [
  { repository: 'df-addapt', does: 'with a line that begins like an instruction chats', expected: chats('got: hello') },
  { repository: 'df-pyfrom', does: 'with a program over several lines chats', expected: chats('got: hello') },
  { repository: 'df-nbsp', does: 'with a no-break space in a comment chats', expected: chats('got: hello') },
  { repository: 'df-default', does: 'with a default in FROM chats', expected: chats('got: hello') },
  {
    repository: 'df-crlf',
    does: 'with carriage returns in its entry script says so in its log',
    expected: { status: 'error', output: contains('/app/entry.sh: its first line ends in a carriage return') },
  },
  { repository: 'df-port', does: 'that exposes another port chats there', expected: chats('got: hello') },
  {
    repository: 'df-404',
    does: 'without a health check is told what was asked and answered',
    expected: { status: 'error', message: contains('GET /healthz on port 8080 answered 404') },
  },
  {
    repository: 'df-loop',
    does: 'that listens on the loopback address is told so',
    expected: { status: 'error', message: contains('listens on 127.0.0.1') },
  },
];

/** The rows whose outcome has a test of its own. */
const alone = ['express-static'];

describe('the repositories as people bring them', () => {
  it('have a test each', () => {
    const tested = [...projects, ...dockerfiles].map(({ repository }) => repository);
    expect([...tested, ...alone].toSorted()).toEqual(broughtRepositories.toSorted());
  });
});

describe('an agent of the repository, on a machine without Docker,', () => {
  let git: GitServer;
  let server: TestServer;
  let agents: BroughtAgents;
  const outcomes = new TwoAtATime(
    projects.map(({ repository, files, branch }) => () => {
      return agents.outcomeOf(repository, { ...broughtRepository(repository), ...files }, branch);
    }),
  );

  beforeAll(async () => {
    git = await GitServer.start();
    const features = runningFeatures(LocalRuntimeModule.forTest());
    const environment = {
      MOORING_ALLOW_PRIVATE_SOURCES: git.host,
      // Packages may come through a proxy that only the machine trusts.
      ...(existsSync(certificates) ? { MOORING_BUILD_CA_FILE: certificates } : {}),
    };
    server = await startFeatureServer({ ...features, modules: [...features.modules, ProvisioningModule], environment });
    agents = await BroughtAgents.open(server, git);
  });
  afterAll(async () => {
    await outcomes.close();
    await server?.close();
    await git?.close();
  });

  it.each(projects.map((row, at) => ({ ...row, at })))('$repository $does', async ({ repository, registry, expected, at }) => {
    if (registry !== undefined && !(await isReached(registry, repository))) return;
    expect(await outcomes.resultOf(at)).toMatchObject(expected);
  });

  it('express-static sends the new page after a push, though the old one was as long', async () => {
    if (!(await isReached('npm', 'express-static'))) return;
    const page = (price: number) => ({ ...broughtRepository('express-static'), 'public/index.html': `<h1>price: ${price} EUR</h1>\n` });
    git.time = '2026-03-01T12:00:00Z';
    git.commit('express-static', page(100));
    const made = await agents.call('POST', '/api/v1/provision', { name: 'static', repo_url: git.url('express-static') });
    const { agentId, chat } = await agents.settled(made.json.agent_id as string);
    expect(chat).toBe('express got: hello');
    await agents.call('PATCH', `/api/v1/agents/${agentId}`, { public: true });
    // Without a header of its own, a conditional fetch would ask for an answer past all caches.
    const ofCaches = { 'cache-control': 'max-age=0' };
    const get = (headers: Record<string, string> = {}) => fetch(`${server.url}/a/${agentId}/`, { headers: { ...ofCaches, ...headers } });
    const first = await get();
    expect(await first.text()).toContain('100 EUR');
    const tag = first.headers.get('etag') ?? '';
    const since = first.headers.get('last-modified') ?? '';
    expect((await get({ 'if-none-match': tag })).status).toBe(304);

    git.time = '2026-03-01T12:00:05Z';
    git.commit('express-static', page(250));
    git.time = null;
    await agents.call('POST', `/api/v1/agents/${agentId}/deploy`);
    await agents.settled(agentId);
    for (const [name, value] of [
      ['if-none-match', tag],
      ['if-modified-since', since],
    ] as const) {
      const anew = await get({ [name]: value });
      expect([anew.status, await anew.text()]).toEqual([200, contains('250 EUR')]);
    }
  });
});

describe('an agent of the repository, by its Dockerfile,', () => {
  let git: GitServer;
  let bed: DockerFixture;
  let server: TestServer;
  let agents: BroughtAgents;
  let base: string;
  const outcomes = new TwoAtATime(
    dockerfiles.map(({ repository }) => () => {
      const files = broughtRepository(repository, (text) => text.replaceAll(NAMED_BASE, base));
      return agents.outcomeOf(repository, files);
    }),
  );

  beforeAll(async () => {
    git = await GitServer.start();
    bed = await DockerFixture.open();
    base = `mooring-test-${bed.instance}-node`;
    bed.remember(await importNodeImage(bed.docker, `${base}:20`));
    const features = runningFeatures(fixtureRuntime(bed));
    const environment = { MOORING_ALLOW_PRIVATE_SOURCES: git.host, MOORING_SHARED_IMAGES: `${base}:20`, MOORING_START_TIMEOUT: '20' };
    server = await startFeatureServer({ ...features, modules: [...features.modules, ProvisioningModule], environment });
    agents = await BroughtAgents.open(server, git);
  });
  afterAll(async () => {
    await outcomes.close();
    await server?.close();
    await bed?.close();
    await git?.close();
  });

  it.each(dockerfiles.map((row, at) => ({ ...row, at })))('$repository $does', async ({ expected, at }) => {
    expect(await outcomes.resultOf(at)).toMatchObject(expected);
  });
});
