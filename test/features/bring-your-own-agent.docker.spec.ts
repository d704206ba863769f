import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { ProvisioningModule } from '../../src/features/provisioning/provisioning.module.ts';
import type { ContainerView } from '../../src/runtime/container.ts';
import { BroughtAgents } from '../support/brought-repositories.ts';
import { DockerFixture } from '../support/docker-fixture.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { runningFeatures } from '../support/features.ts';
import { fixtureRuntime } from '../support/fixture-runtime.ts';
import { type GitEntry, GitServer } from '../support/git-server.ts';
import type { TestServer } from '../support/http-server.ts';
import { until } from '../support/until.ts';

const page = readFileSync(resolve(import.meta.dirname, '../../docs/guides/bring-your-own-agent.md'), 'utf8');
/** The places in which machines have the compiler of Go. */
const compilers = ['/usr/local/go/bin/go', '/usr/lib/go/bin/go', '/usr/bin/go'];
const KILLED_EXIT_CODE = 137;

/** Returns the first block of the page in the language. */
function blockOf(language: string): string {
  const [, block] = new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, 'ms').exec(page) ?? [];
  if (block === undefined) throw new Error(`The page has no block of ${language}.`);
  return block;
}

/** Returns the text that the page has between backticks and that begins so. */
function codeThatBegins(beginning: string): string {
  const found = [...page.matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => code).find((code) => code.startsWith(beginning));
  if (found === undefined) throw new Error(`The page has no code that begins with ${beginning}.`);
  return found;
}

/** Builds the program of the page as the first stage of its Dockerfile does. Returns null if this machine has no compiler. */
function goProgram(): Buffer | null {
  const compiler = compilers.find((path) => existsSync(path));
  if (compiler === undefined) {
    console.warn('Go is not installed: its agent was NOT tried');
    return null;
  }
  const [, build = ''] = /^RUN CGO_ENABLED=0 go (build) -o \/agent \.$/m.exec(blockOf('dockerfile')) ?? [];
  const folder = mkdtempSync(join(tmpdir(), 'mooring-go-'));
  try {
    writeFileSync(join(folder, 'main.go'), blockOf('go'));
    writeFileSync(join(folder, 'go.mod'), blockOf('text'));
    const env = { ...process.env, CGO_ENABLED: '0', GOCACHE: join(folder, 'cache'), GOFLAGS: '-ldflags=-w', GOTOOLCHAIN: 'local' };
    execFileSync(compiler, [build, '-o', join(folder, 'agent'), '.'], { cwd: folder, env, stdio: 'pipe' });
    return readFileSync(join(folder, 'agent'));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Returns the files of the repository with the page's agent. */
function repositoryOf(language: string): Record<string, GitEntry> | null {
  if (language === 'JavaScript') return { 'package.json': codeThatBegins('{"type": "module"'), 'server.js': blockOf('js') };
  if (language === 'Python') return { 'requirements.txt': '', 'main.py': blockOf('python') };
  const program = goProgram();
  if (program === null) return null;
  // An image with a compiler can't be had here. So this machine builds the program, and the rest is the last stage of the page.
  const last =
    blockOf('dockerfile')
      .split(/^(?=FROM )/m)
      .at(-1) ?? '';
  return { Dockerfile: last.replace('--from=build /agent', 'program'), program: { executable: program } };
}

describe('an agent of docs/guides/bring-your-own-agent.md', () => {
  let bed: DockerFixture;
  let git: GitServer;
  let server: TestServer;
  let agents: BroughtAgents;

  beforeAll(async () => {
    git = await GitServer.start();
    bed = await DockerFixture.open();
    const features = runningFeatures(fixtureRuntime(bed));
    const environment = { MOORING_ALLOW_PRIVATE_SOURCES: git.host };
    server = await startFeatureServer({ ...features, modules: [...features.modules, ProvisioningModule], environment });
    agents = await BroughtAgents.open(server, git);
  });
  afterAll(async () => {
    await server?.close();
    await bed?.close();
    await git?.close();
  });

  const containerOf = async (agentId: string) => (await bed.runtime.inspect(agentId)).containers[0] as ContainerView;
  /** Sends the agent a message as the service does, and returns its answer. */
  const sendTo = async (agentId: string, message: object) => {
    const { host, port } = await bed.runtime.address(await containerOf(agentId), 8080);
    return (await fetch(`http://${host}:${port}/messages`, { method: 'POST', body: JSON.stringify(message) })).json();
  };
  const logOf = async (agentId: string) => (await agents.call('GET', `/api/v1/agents/${agentId}/logs?limit=200`)).json as object[];

  it.each(['JavaScript', 'Python', 'Go'])('in %s answers, repeats no work, and ends when it is told to', async (language) => {
    const files = repositoryOf(language);
    if (files === null) return;
    git.commit(language, files);
    const { json } = await agents.call('POST', '/api/v1/provision', { name: language, repo_url: git.url(language) });
    const { agentId, status, chat, message } = await agents.settled(json.agent_id as string);
    expect({ status, chat, message }).toMatchObject({ status: 'active', chat: 'You wrote: hello' });

    const twice = { id: 'one', channel: 'webhook', text: 'grüße' };
    const replies = [await sendTo(agentId, twice), await sendTo(agentId, { ...twice, text: 'another' })];
    expect(replies).toEqual([{ response: 'You wrote: grüße' }, { response: 'You wrote: grüße' }]);
    const worked = await until('the log has both messages', async () => {
      const entries = (await logOf(agentId)).filter((entry) => JSON.stringify(entry).includes('answering a message'));
      return entries.length >= 2 ? entries : undefined;
    });
    expect(worked).toEqual([
      expect.objectContaining({ level: 'info', message: 'answering a message' }),
      expect.objectContaining({ level: 'info', message: 'answering a message', fields: expect.objectContaining({ id: 'one' }) }),
    ]);

    const { handle } = await containerOf(agentId);
    expect((await agents.call('POST', `/api/v1/agents/${agentId}/stop`)).json).toMatchObject({ status: 'stopped' });
    const { State } = await bed.docker.getContainer(handle).inspect();
    // A program that ignores the signal would be killed at the end of its time.
    expect(State.Running).toBe(false);
    expect(State.ExitCode).not.toBe(KILLED_EXIT_CODE);
  });
});
