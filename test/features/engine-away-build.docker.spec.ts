import { ProvisioningModule } from '../../src/features/provisioning/provisioning.module.ts';
import { AgentFixture } from '../support/agent-fixture.ts';
import { fixtureRuntime } from '../support/fixture-runtime.ts';
import { DockerFixture } from '../support/docker-fixture.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { runningFeatures } from '../support/features.ts';
import { GitServer } from '../support/git-server.ts';
import type { TestServer } from '../support/http-server.ts';
import { PrivateEngine } from '../support/private-engine.ts';
import { until } from '../support/until.ts';

/** The time of a deployment, and that of two calls to an engine that hangs. */
const SETTLED_MS = 150_000;

describe('a build from a repository whose engine does not go on with it', () => {
  let engine: PrivateEngine;
  let bed: DockerFixture;
  let git: GitServer;
  let server: TestServer;

  beforeAll(async () => {
    engine = await PrivateEngine.open();
    await engine.start();
    git = await GitServer.start();
    bed = await DockerFixture.open(engine.docker);
    const runtime = fixtureRuntime(bed);
    const environment = {
      MOORING_ALLOW_PRIVATE_SOURCES: git.host,
      MOORING_SHARED_IMAGES: bed.image,
      MOORING_DEPLOY_TIMEOUT: '40',
    };
    const features = runningFeatures(runtime);
    server = await startFeatureServer({ ...features, modules: [...features.modules, ProvisioningModule], environment });
    await new AgentFixture(server).account('acme', 10);
  });

  afterAll(async () => {
    await server?.close();
    await bed?.runtime.close();
    await git?.close();
    await engine?.close();
  });

  const call = (method: string, path: string, json?: unknown) => server.request(method, path, { credential: 'mk_acme', json });
  const commit = (step: string) => git.commit('project', { Dockerfile: `FROM ${bed.image}\nRUN ${step}\n` });

  /** Begins a deployment, and waits until its build is in the middle. Returns the agent's address. */
  const building = async (): Promise<string> => {
    commit('["sleep", "604"]');
    const made = await call('POST', '/api/v1/provision', { name: 'x', repo_url: git.url('project') });
    await until('the build runs', async () => ((await engine.docker.listContainers()).length > 0 ? true : undefined));
    return `/api/v1/agents/${made.json.agent_id}`;
  };

  /** Waits until the deployment has failed, and returns its record. */
  const failed = (agent: string) =>
    until(
      'the deployment fails',
      async () => {
        const [record] = (await call('GET', `${agent}/deployments`)).json;
        return record.status === 'failed' ? record : undefined;
      },
      { timeoutMs: SETTLED_MS },
    );

  it('is repeated when an engine that was stopped is back', async () => {
    const agent = await building();
    await engine.stop();
    commit('["sh", "-c", "echo broken; exit 3"]');
    await engine.start();
    const record = await failed(agent);
    expect(record.message).toMatch(/returned a non-zero code: 3: broken$/);
    expect(record.build_log).toContain('broken');
  });

  it('fails at its deadline with a sentence if the engine hangs', async () => {
    const agent = await building();
    engine.suspend();
    const record = await failed(agent);
    expect(record.message).toMatch(/longer than a deployment may|engine/i);
    expect((await call('GET', agent)).json).toMatchObject({ status: 'error' });
  });
});
