import { randomBytes } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

import { Module, type DynamicModule } from '@nestjs/common';
import Dockerode from 'dockerode';

import { describeWithDocker } from '../../../test/support/docker.ts';
import { runningFeatures } from '../../../test/support/features.ts';
import { AgentBed } from '../../../test/support/agent-bed.ts';
import { EngineStandIn } from '../../../test/support/engine-stand-in/engine-stand-in.ts';
import { startFeatureServer } from '../../../test/support/feature-server.ts';
import { removeInstance } from '../../../test/support/images.ts';
import { hostileImageNames, privateImageNames } from '../../../test/support/hostile-images.ts';
import { expectProblem } from '../../../test/support/things-server.ts';
import type { TestServer } from '../../../test/support/http-server.ts';
import { RESOLVE_HOST } from '../../agents/services.ts';
import type { ResolveHost } from '../../platform/public-addresses.ts';
import { DockerRuntime } from '../../platform/runtime/docker/docker-runtime.ts';
import { ContainerRuntime } from '../../platform/runtime/runtime.ts';

/** The images that the engine has from the start, as if they had been pulled or built there. */
const SECRET = 'somebody/secret:1';
const SHARED = 'operator/shared:2';
const SHARED_TAG = 'operator/tagged:1';
const OTHER_TAG = 'operator/tagged:2';
const ALIKE = 'operator/shared-not:1';
const NOWHERE = 'nowhere.example';

@Module({})
class TestRuntime {}

/** Returns the addresses that the system's resolver finds, without a question to a name server. */
async function addressesOf(host: string): Promise<string[]> {
  if (host === NOWHERE) return [];
  return (await lookup(host, { all: true })).map(({ address }) => address);
}

/** Provides the runtime on that engine, and where the names of registries lead. */
function runtimeOn(docker: Dockerode, instance: string, resolve: ResolveHost): DynamicModule {
  const runtime = () => new DockerRuntime({ instance, docker, helperImage: null, ociRuntime: null, egress: 'all' });
  return {
    module: TestRuntime,
    global: true,
    providers: [
      { provide: ContainerRuntime, useFactory: runtime },
      { provide: RESOLVE_HOST, useValue: resolve },
    ],
    exports: [ContainerRuntime, RESOLVE_HOST],
  };
}

async function closeServer(started: TestServer | undefined): Promise<void> {
  await started?.close();
  await started?.app.get(ContainerRuntime, { strict: false }).close();
}

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

let engine: EngineStandIn;
let server: TestServer;
let bed: AgentBed;

beforeAll(async () => {
  engine = await EngineStandIn.start({ trickling: ['trickle/image:1'] });
  for (const name of [SECRET, SHARED, SHARED_TAG, OTHER_TAG, ALIKE]) engine.images.pulled(name);
  const runtime = runtimeOn(new Dockerode({ socketPath: engine.socket }), 'abcdef012345', addressesOf);
  server = await startFeatureServer({
    ...runningFeatures(runtime),
    environment: { MOORING_SHARED_IMAGES: `operator/shared,${SHARED_TAG}` },
  });
  bed = new AgentBed(server);
  for (const account of ['acme', 'other']) await bed.account(account, 100);
});

afterAll(async () => {
  await closeServer(server);
  await engine?.close();
});

const call = (account: string, method: string, path: string, json?: unknown, headers: Record<string, string> = {}) =>
  server.request(method, path, { credential: `mk_${account}`, json, headers });

/** Deploys the image to a new agent of the account, and returns the deployment's status, log and message. */
async function deployed(account: string, imageName: string): Promise<{ status: string; log: string; message: string }> {
  const agentId = await bed.created(account, { image: 'docker', image_name: imageName, template_id: null });
  await call(account, 'POST', `/api/v1/agents/${agentId}/deploy`, undefined, { prefer: 'wait=20' });
  const [deployment] = (await call(account, 'GET', `/api/v1/agents/${agentId}/deployments`)).json;
  return { status: deployment.status, log: deployment.build_log, message: deployment.message };
}

describe('an image that the engine has', () => {
  it('is used without a pull by the account that has pulled it, and by no other', async () => {
    expect((await deployed('acme', SECRET)).log).toContain(`Pulling ${SECRET}`);
    const again = await deployed('acme', SECRET);
    expect(again.status).toBe('success');
    expect(again.log).toContain(`Using ${SECRET}, which the engine has`);
    expect((await deployed('other', SECRET)).log).toContain(`Pulling ${SECRET}`);
  });

  it('is used without a pull by every account if the operator shares it, whatever its tag', async () => {
    for (const account of ['acme', 'other']) {
      const { log, status } = await deployed(account, SHARED);
      expect(status).toBe('success');
      expect(log).toContain(`Using ${SHARED}, which the engine has`);
    }
  });

  it('is used without a pull under the one tag that the operator shares, and under no other', async () => {
    expect((await deployed('acme', SHARED_TAG)).log).toContain(`Using ${SHARED_TAG}, which the engine has`);
    expect((await deployed('acme', OTHER_TAG)).log).toContain(`Pulling ${OTHER_TAG}`);
  });

  it('is pulled if its name only begins like one that the operator shares', async () => {
    expect((await deployed('acme', ALIKE)).log).toContain(`Pulling ${ALIKE}`);
  });
});

describe('an image whose registry’s name leads nowhere', () => {
  it('is not pulled, because the engine could find a private address that the service did not find', async () => {
    const { status, message, log } = await deployed('acme', `${NOWHERE}/x:1`);
    expect([status, message]).toEqual(['failed', `The registry of ${NOWHERE}/x:1 was not found.`]);
    expect(log).not.toContain('Pulling');
  });
});

describe('a variable that leads to a private address', () => {
  it('is told in the build log, with what allows it', async () => {
    const agentId = await bed.created('acme', { image: 'docker', image_name: SHARED, template_id: null });
    await call('acme', 'POST', `/api/v1/agents/${agentId}/env`, { key: 'OPENAI_BASE_URL', value: 'http://192.168.7.9:11434/canary' });
    await call('acme', 'POST', `/api/v1/agents/${agentId}/deploy`, undefined, { prefer: 'wait=20' });
    const [deployment] = (await call('acme', 'GET', `/api/v1/agents/${agentId}/deployments`)).json;
    expect(deployment.build_log).toMatch(/OPENAI_BASE_URL leads to 192\.168\.7\.9.*MOORING_AGENT_EGRESS_PRIVATE=192\.168\.7\.9:11434/);
    expect(deployment.build_log).not.toContain('canary');
  });
});

describe('a hostile name of an image', () => {
  it('is refused wherever it can be given, the field is named, and nothing is fetched or written', async () => {
    const agentId = await bed.created('acme', { image: 'docker', image_name: SHARED, template_id: null });
    const before = await bed.types(agentId);
    expect(hostileImageNames.length + privateImageNames.length).toBeGreaterThanOrEqual(40);
    for (const image_name of [...hostileImageNames, ...privateImageNames]) {
      const ways = [
        ['image_name', await call('acme', 'PATCH', `/api/v1/agents/${agentId}`, { image_name })],
        ['image_name', await call('acme', 'POST', `/api/v1/agents/${agentId}/deploy`, { image_name })],
        ['imageName', await call('acme', 'POST', '/api/deploy', { agentId, source: 'docker', imageName: image_name })],
      ] as const;
      for (const [field, answer] of ways) {
        const fields = (answer.json.errors ?? []).map((each: { field: string }) => each.field.toLowerCase().replace('_', ''));
        expect([image_name, field, answer.status, fields]).toEqual([image_name, field, 400, ['imagename']]);
        expectProblem(answer, 400, 'invalid_request');
        if (privateImageNames.includes(image_name)) expect(answer.json.detail).toContain('private address');
      }
    }
    expect(await bed.types(agentId)).toEqual(before);
    for (const name of [...hostileImageNames, ...privateImageNames]) expect(engine.images.find(name)).toBeUndefined();
  });
});

describeWithDocker('an image at a private address', () => {
  const docker = new Dockerode();
  const instance = randomBytes(6).toString('hex');
  let inner: Registry;
  let allowed: Registry;
  let real: TestServer;
  let agents: AgentBed;
  /** The addresses to which the name of both registries leads, one for each time that it is resolved, before it leads to this machine. */
  let leadsTo: string[] = [];

  beforeAll(async () => {
    [inner, allowed] = [await Registry.start(), await Registry.start()];
    const runtime = runtimeOn(docker, instance, async () => [leadsTo.shift() ?? '127.0.0.1']);
    // The engine resolves this name itself, to this machine, and asks a registry there without TLS.
    const environment = { MOORING_ALLOW_PRIVATE_SOURCES: `localhost:${allowed.port}` };
    real = await startFeatureServer({ ...runningFeatures(runtime), environment });
    agents = new AgentBed(real);
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

  it('is asked for at its registry if the operator allows that', async () => {
    const { latest } = await deployedFrom(allowed);
    const name = `localhost:${allowed.port}/x:1`;
    expect(latest).toMatchObject({ status: 'failed', build_log: expect.stringContaining(`Pulling ${name}`) });
    // The whole message is compared, because the registry's words could follow ours.
    expect(latest.message).toBe(`The engine could not pull ${name}.`);
    expect(allowed.connections).toBeGreaterThan(0);
  });
});
