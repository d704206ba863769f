import { execFileSync } from 'node:child_process';
import { randomInt } from 'node:crypto';

import { ProvisioningModule } from '../../src/features/provisioning/provisioning.module.ts';
import { AgentFixture } from '../support/agent-fixture.ts';
import { fixtureRuntime } from '../support/fixture-runtime.ts';
import { DockerFixture } from '../support/docker-fixture.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { runningFeatures } from '../support/features.ts';
import type { TestServer } from '../support/http-server.ts';
import { PrivateEngine } from '../support/private-engine.ts';

const range = `198.18.${randomInt(256)}.0/24`;
const route = (how: 'add' | 'del') => execFileSync('ip', ['route', how, 'unreachable', range]);

describe('an agent whose address leads nowhere', () => {
  let engine: PrivateEngine;
  let bed: DockerFixture;
  let server: TestServer;
  let image: string;
  let quiet: string;

  beforeAll(async () => {
    engine = await PrivateEngine.open();
    // The addresses of its containers are in a network of their own. Whatever this machine's network answers at such addresses is none of them.
    route('add');
    await engine.start(['--default-address-pool', `base=${range},size=26`]);
    bed = await DockerFixture.open(engine.docker, 'all', 'container');
    image = await bed.imageWith(['CMD ["/bin/busybox", "httpd", "-f", "-p", "8080", "-h", "/www"]']);
    quiet = await bed.imageWith(['CMD ["/bin/busybox", "sleep", "300"]']);
    const runtime = fixtureRuntime(bed);
    const environment = { MOORING_SHARED_IMAGES: `${image},${quiet}`, MOORING_START_TIMEOUT: '3' };
    const features = runningFeatures(runtime);
    server = await startFeatureServer({ ...features, modules: [...features.modules, ProvisioningModule], environment });
    await new AgentFixture(server).account('acme', 10);
  });

  afterAll(async () => {
    await server?.close();
    await bed?.runtime.close();
    await engine?.close();
    route('del');
  });

  /** Deploys an agent, and returns why that failed. */
  const failure = async (of: string): Promise<string> => {
    const headers = { prefer: 'wait=100' };
    const ask = (method: string, path: string, json?: unknown) => server.request(method, path, { credential: 'mk_acme', json, headers });
    const made = await ask('POST', '/api/v1/provision', { name: 'x', image: 'docker', image_name: of, auto_deploy: false });
    const agent = `/api/v1/agents/${made.json.agent_id}`;
    await ask('POST', `${agent}/deploy`);
    const [record] = (await ask('GET', `${agent}/deployments`)).json;
    expect(record.status).toBe('failed');
    return record.message as string;
  };

  it('fails its deployment with an error that names the setting for the operator', async () => {
    const reason = await failure(image);
    expect(reason).toMatch(
      /not ready within 3 s of its start: GET \/healthz on port 8080: no connection.*; the program listens on port 8080, but its address, [\d.]+, is not/,
    );
    expect(reason).toContain('MOORING_AGENT_ADDRESSES');
  });

  it('is not blamed on the address if no program listens', async () => {
    expect(await failure(quiet)).toMatch(/not ready within 3 s of its start: .*; no program in the container listens on a port\./);
  });
});
