import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../..');
const support = join(root, 'test', 'support');

/** The tests that fail in the file that is run below. */
const planted = `
  import { AgentFixture } from '${support}/agent-fixture.ts';
  import { startFeatureServer } from '${support}/feature-server.ts';
  import { agentFeatures } from '${support}/features.ts';
  import { startTestServer } from '${support}/http-server.ts';
  let server;
  let agents;
  beforeAll(async () => {
    server = await startFeatureServer(agentFeatures);
    agents = new AgentFixture(server);
  });
  afterAll(() => server.close());

  it('passes', () => undefined);

  it('fails with a console of its own', async () => {
    const agentId = await agents.active('acme');
    const json = { key: 'TOKEN', value: 'canary-0815-secret', is_secret: true };
    const headers = { 'x-request-id': 'last-request' };
    await server.request('POST', '/api/v1/agents/' + agentId + '/env', { credential: 'mk_acme', headers, json });
    jest.spyOn(console, 'log').mockReturnValue(undefined);
    throw new Error('planted');
  });

  describe('a harbour', () => {
    beforeAll(() => {
      jest.restoreAllMocks();
      throw new Error('planted');
    });
    it('opens', () => undefined);
    it('closes', () => undefined);
  });

  describe('a server that does not start', () => {
    const broken = { provide: 'anchor', useFactory: () => Promise.reject(new Error('the anchor is lost')) };
    beforeAll(() => startTestServer(() => ({ providers: [broken] })));
    it('answers', () => undefined);
  });
`;

/** Runs the planted tests in a test runner of its own, and returns everything that it prints. */
async function outputOfFailures(): Promise<string> {
  // The test runner compares real paths.
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'mooring-evidence-')));
  await writeFile(join(folder, 'planted.spec.mjs'), planted);
  const config = {
    rootDir: folder,
    testRegex: 'planted',
    testTimeout: 300_000,
    transform: {},
    testRunner: join(root, 'test/runner/test-framework.mjs'),
    testEnvironment: join(root, 'test/runner/environment.mjs'),
  };
  const node = ['--import', join(root, 'scripts/typescript.mjs'), '--disable-warning=ExperimentalWarning'];
  const jestCommand = [join(root, 'node_modules/jest/bin/jest.js'), '--config', JSON.stringify(config), '--runInBand', '--color=false'];
  const child = spawn(process.execPath, [...node, ...jestCommand], { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  await once(child, 'close');
  await rm(folder, { recursive: true, force: true });
  return output;
}

describe('a file of tests that fail', () => {
  let output: string;
  /** The evidence of each failure, in order. */
  let shown: string[];

  beforeAll(async () => {
    output = await outputOfFailures();
    shown = output.split('What was seen when ').slice(1);
  });

  it('prints what the server logged and the types of its events when a test fails', () => {
    expect(output).toContain('4 failed, 1 passed');
    expect(shown[0]).toMatch(/^"fails with a console of its own" failed:\s+-- test server\n/);
    expect(shown[0]).toMatch(/the last \d+ of \d+ log lines:[^]+"request_id":"last-request"[^]+the last 6 events in PostgreSQL:/);
    expect(shown[0]).toMatch(/ 6 \d{4}-\d\d-\d\dT\S+ agent-\S+ VariableSet\n/);
  });

  it('prints once what was seen when beforeAll fails', () => {
    expect(shown).toHaveLength(3);
    expect(shown[1]).toMatch(/^beforeAll failed:\s+-- test server\n/);
    expect(shown[1]).toMatch(/ agent-\S+ VariableSet\n/);
  });

  it('prints what a server logged that did not start', () => {
    expect(shown[2]).toMatch(/^beforeAll failed:\s+-- test server\s+the last \d+ of \d+ log lines:\n[^]+the anchor is lost/);
    expect(shown[2]).toContain('no events, since the database does not answer');
  });

  it('prints no secret', () => {
    expect(output).not.toContain('0815');
  });
});
