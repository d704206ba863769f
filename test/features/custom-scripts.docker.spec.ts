import { AgentFixture } from '../support/agent-fixture.ts';
import { DockerFixture } from '../support/docker-fixture.ts';
import { runningFeatures } from '../support/features.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { fixtureRuntime } from '../support/fixture-runtime.ts';
import type { TestServer } from '../support/http-server.ts';

describe('an agent on Docker', () => {
  let bed: DockerFixture;
  let server: TestServer;
  let agents: AgentFixture;

  beforeAll(async () => {
    bed = await DockerFixture.open();
    server = await startFeatureServer(runningFeatures(fixtureRuntime(bed)));
    agents = new AgentFixture(server);
    await agents.account('acme', 10);
  });
  afterAll(async () => {
    await server?.close();
    await bed?.close();
  });

  const call = (method: string, path: string, json?: unknown) =>
    server.request(method, path, { credential: 'mk_acme', json, headers: { prefer: 'wait=100' } });
  const deployed = async (script: string) => {
    const id = await agents.created('acme', { image: 'auto', image_name: null, template_id: 'hello' });
    await call('POST', `/api/v1/agents/${id}/files`, { files: [{ path: 'a.sh', content: script }] });
    const { json } = await call('POST', `/api/v1/agents/${id}/deploy`);
    const [{ build_log: log }] = (await call('GET', `/api/v1/agents/${id}/deployments`)).json;
    return { id, status: json.status as string, log: log as string };
  };
  const run = async (id: string, ...command: string[]) => (await call('POST', `/api/agents/${id}/exec`, { command })).json;

  it('of a template has a shell with the usual programs, for its scripts and for what its own program starts', async () => {
    const { id, status, log } = await deployed('#!/bin/bash\nset -e\necho "ran $(basename "$0")" | tr a-z A-Z\n');
    expect({ status, log }).toEqual({ status: 'active', log: expect.stringContaining('RAN A.SH') });
    const start = `console.log(require('node:child_process').execSync('echo "$((1 + 1))"; basename "$0"; uname').toString())`;
    expect(await run(id, 'node', '-e', start)).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('2\nsh\nLinux\n') });
  });
});
