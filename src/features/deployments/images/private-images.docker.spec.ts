import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

import Dockerode from 'dockerode';

import { AgentFixture } from '../../../../test/support/agent-fixture.ts';
import { closeServer, runtimeOn } from '../../../../test/support/engine-runtime.ts';
import { startFeatureServer } from '../../../../test/support/feature-server.ts';
import { runningFeatures } from '../../../../test/support/features.ts';
import type { TestServer } from '../../../../test/support/http-server.ts';
import { removeInstance } from '../../../../test/support/images.ts';

/** Listens on this machine where a registry would, and answers nothing that one would. */
class Registry {
  connections = 0;
  private readonly server = createServer((_, answer) => answer.writeHead(418).end());

  static async start(): Promise<Registry> {
    const registry = new Registry();
    registry.server.on('connection', () => (registry.connections += 1)).listen(0, '127.0.0.1');
    await once(registry.server, 'listening');
    return registry;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    const closed = once(this.server, 'close');
    this.server.close();
    this.server.closeAllConnections();
    await closed;
  }
}

describe('an image at a private address', () => {
  const docker = new Dockerode();
  const instance = randomBytes(6).toString('hex');
  let inner: Registry;
  let allowed: Registry;
  let real: TestServer;
  let agents: AgentFixture;
  /** The addresses to which the name of both registries leads, one for each time that it is resolved, before it leads to this machine. */
  let leadsTo: string[] = [];

  beforeAll(async () => {
    [inner, allowed] = [await Registry.start(), await Registry.start()];
    const runtime = runtimeOn(docker, instance, async () => [leadsTo.shift() ?? '127.0.0.1']);
    // The engine resolves this name itself, to this machine, and asks a registry there without TLS.
    const environment = { MOORING_ALLOW_PRIVATE_SOURCES: `localhost:${allowed.port}` };
    real = await startFeatureServer({ ...runningFeatures(runtime), environment });
    agents = new AgentFixture(real);
    await agents.account('acme', 100);
  });
  afterAll(async () => {
    await closeServer(real);
    await removeInstance(docker, instance);
    for (const registry of [inner, allowed]) await registry?.close();
  });

  /** Deploys an image of the registry, and returns the latest deployment. */
  async function deployedFrom({ port }: Registry) {
    const agentId = await agents.created('acme', { image: 'docker', image_name: `localhost:${port}/x:1`, template_id: null });
    const path = `/api/v1/agents/${agentId}`;
    const credential = 'mk_acme';
    const asked = await real.request('POST', `${path}/deploy`, { credential, headers: { prefer: 'wait=60' } });
    const [latest] = (await real.request('GET', `${path}/deployments`, { credential })).json;
    return { status: asked.status, latest: latest as { status: string; message: string; build_log: string } };
  }

  it('is not pulled if its name leads there only since the request', async () => {
    leadsTo = ['93.184.216.34'];
    const { status, latest } = await deployedFrom(inner);
    // The request was taken, with the one address of that time, so it was the pull that was refused.
    expect([status, leadsTo]).toEqual([200, []]);
    expect(latest).toMatchObject({ status: 'failed', message: expect.stringContaining('has a private address') });
    expect(latest.build_log).not.toContain('Pulling');
    expect(inner.connections).toBe(0);
  });

  it('is requested from its registry if the operator allows that', async () => {
    const { latest } = await deployedFrom(allowed);
    const name = `localhost:${allowed.port}/x:1`;
    expect(latest).toMatchObject({ status: 'failed', build_log: expect.stringContaining(`Pulling ${name}`) });
    // The whole message is compared, because the registry's words could follow ours.
    expect(latest.message).toBe(`The engine could not pull ${name}.`);
    expect(allowed.connections).toBeGreaterThan(0);
  });
});
