import { ProvisioningModule } from '../../src/features/provisioning/provisioning.module.ts';
import { AgentFixture } from '../support/agent-fixture.ts';
import { DockerFixture } from '../support/docker-fixture.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { runningFeatures } from '../support/features.ts';
import { fixtureRuntime } from '../support/fixture-runtime.ts';
import type { TestServer } from '../support/http-server.ts';

const httpd = (at: string) => [`CMD ["/bin/busybox", "httpd", "-f", "-p", "${at}", "-h", "/www"]`];

/** The agents, and the reasons why they are not ready. */
const agents: Record<string, { changes: string[]; reason: RegExp }> = {
  'without the route of the health check': {
    changes: httpd('8080'),
    reason: /: GET \/healthz on port 8080 answered 404, and 2xx is needed: add such a route, or set health_path\.$/,
  },
  'that listens on the loopback address': {
    changes: httpd('127.0.0.1:8080'),
    reason: /: GET \/healthz on port 8080: [^;]+; the program listens on 127\.0\.0\.1:8080 alone, .* Let it listen on 0\.0\.0\.0\.$/,
  },
  'that listens on another port': {
    changes: httpd('3000'),
    reason: /; the program listens on \[::\]:3000\. Let it listen on the port in PORT, or with port set to 3000 /,
  },
  'that listens on another port of the loopback address': {
    changes: httpd('127.0.0.1:3000'),
    reason: /; the program listens on 127\.0\.0\.1:3000\. Let it listen on 0\.0\.0\.0, and on the port in PORT, or with port set to 3000 /,
  },
  'that listens nowhere': {
    changes: ['CMD ["/bin/busybox", "sleep", "300"]'],
    reason: /; no program in the container listens on a port\. Let the program listen on 0\.0\.0\.0 and the port in PORT; /,
  },
  'that accepts connections and answers nothing': {
    changes: ['CMD ["/bin/busybox", "nc", "-ll", "-p", "8080", "-e", "/bin/busybox", "sleep", "300"]'],
    reason: /: GET \/healthz on port 8080: no answer within 2 s\. Let the program answer it /,
  },
};

describe('an agent in a container', () => {
  let bed: DockerFixture;
  let server: TestServer;
  const images: Record<string, string> = {};

  beforeAll(async () => {
    bed = await DockerFixture.open();
    for (const [name, { changes }] of Object.entries(agents)) images[name] = await bed.imageWith(changes);
    const environment = { MOORING_SHARED_IMAGES: Object.values(images).join(','), MOORING_START_TIMEOUT: '3' };
    const features = runningFeatures(fixtureRuntime(bed));
    server = await startFeatureServer({ ...features, modules: [...features.modules, ProvisioningModule], environment });
    await new AgentFixture(server).account('acme', 10);
  });
  afterAll(async () => {
    await server?.close();
    await bed?.close();
  });

  it.each(Object.keys(agents))('%s fails with the reason why it is not ready', async (name) => {
    const headers = { prefer: 'wait=100' };
    const ask = (method: string, path: string, json?: unknown) => server.request(method, path, { credential: 'mk_acme', json, headers });
    const made = await ask('POST', '/api/v1/provision', { name: 'x', image: 'docker', image_name: images[name] });
    const [record] = (await ask('GET', `/api/v1/agents/${made.json.agent_id}/deployments`)).json;
    expect(record).toMatchObject({ status: 'failed', message: expect.stringMatching(/^It was not ready within 3 s of its start: /) });
    expect(record.message).toMatch(agents[name]?.reason as RegExp);
  });
});
