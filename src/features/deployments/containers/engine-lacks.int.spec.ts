import Dockerode from 'dockerode';

import { AgentFixture } from '../../../../test/support/agent-fixture.ts';
import { closeServer, runtimeOn } from '../../../../test/support/engine-runtime.ts';
import { FakeDockerEngine } from '../../../../test/support/fake-docker-engine/fake-docker-engine.ts';
import { fakeProbe } from '../../../../test/support/fake-docker-engine/probe.ts';
import { startFeatureServer } from '../../../../test/support/feature-server.ts';
import { runningFeatures } from '../../../../test/support/features.ts';
import type { TestServer } from '../../../../test/support/http-server.ts';
import { until } from '../../../../test/support/until.ts';
import { request } from '../../../../test/contracts/runtime.probe.ts';
import { ContainerRuntime } from '../../../runtime/runtime.ts';

const IMAGE = 'operator/probe:1';
const REFUSAL = 'OCI runtime pause failed: cannot toggle freezer: cgroups not configured for container: unknown';
const REFUSAL_OF_ONE = 'OCI runtime pause failed: unable to freeze: unknown';
const UNLIMITED = { MemoryLimit: false, CpuCfsQuota: false, PidsLimit: false };
const PODMAN = { Version: '5.3.1', Components: [{ Name: 'Podman Engine' }] };

let engine: FakeDockerEngine;
let server: TestServer;
let bed: AgentFixture;
let usual: { version: FakeDockerEngine['traits']['version']; info: FakeDockerEngine['traits']['info'] };

beforeAll(async () => {
  engine = await FakeDockerEngine.start({ otherwise: fakeProbe });
  engine.images.pulled(IMAGE);
  usual = { version: engine.traits.version, info: engine.traits.info };
  const docker = new Dockerode({ socketPath: engine.socket });
  const runtime = runtimeOn(docker, 'abcdef012346', async () => [], { requireLimits: true });
  server = await startFeatureServer({ ...runningFeatures(runtime), environment: { MOORING_SHARED_IMAGES: IMAGE } });
  bed = new AgentFixture(server);
  await bed.account('acme', 100);
});

afterEach(() => becomes({ ...usual, pauseRefusal: null }, ({ lack, freeze }) => lack === null && freeze));

afterAll(async () => {
  await closeServer(server);
  await engine?.close();
});

const runtime = () => server.app.get(ContainerRuntime, { strict: false });

/** Makes the engine another one, and waits until the service has connected to it and knows so. */
async function becomes(
  traits: Partial<FakeDockerEngine['traits']>,
  isKnown: (told: { lack: string | null; freeze: boolean }) => boolean,
): Promise<void> {
  await engine.goAway();
  Object.assign(engine.traits, traits);
  await engine.comeBack();
  await until('the engine is known', async () => {
    const { lack } = await runtime()
      .engineStatus()
      .catch(() => ({ lack: 'away' }));
    return isKnown({ lack, ...(await runtime().capabilities()) }) ? true : undefined;
  });
}

const ask = (method: string, agentId: string, action = '', wait = 25) =>
  server.request(method, `/api/v1/agents/${agentId}${action === '' ? '' : `/${action}`}`, {
    credential: 'mk_acme',
    headers: { prefer: `wait=${wait}` },
  });

const created = () => bed.created('acme', { image: 'docker', image_name: IMAGE, template_id: null });

async function active(): Promise<string> {
  const agentId = await created();
  expect(await ask('POST', agentId, 'deploy')).toMatchObject({ status: 200, json: { status: 'active' } });
  return agentId;
}

/** Asks the program, which counts its questions in memory, and its starts on the volume. */
async function told(agentId: string, route: 'count' | 'starts'): Promise<string> {
  const address = await runtime().address({ agentId, generation: 1 }, 8080);
  return (await request(address, 'GET', `/${route}`)).text;
}

async function sleepsOf(agentId: string): Promise<unknown[]> {
  return (await bed.events(agentId)).filter(({ type }) => type === 'AgentSlept').map(({ data }) => data.depth);
}

describe('on an engine that can’t pause', () => {
  it('an agent sleeps by being stopped, its history says so, and it wakes', async () => {
    const agentId = await active();
    engine.traits.pauseRefusal = REFUSAL;
    expect(await ask('POST', agentId, 'sleep')).toMatchObject({ status: 200, json: { status: 'sleeping' } });
    expect(await sleepsOf(agentId)).toEqual(['stopped']);
    expect((await runtime().inspect(agentId)).containers.map(({ state }) => state)).toEqual(['exited']);
    expect(await runtime().capabilities()).toMatchObject({ freeze: false });
    expect((await bed.types(agentId)).filter((type) => type === 'AgentFailed')).toEqual([]);
    expect(await ask('POST', agentId, 'start')).toMatchObject({ status: 200, json: { status: 'active' } });
    expect(await told(agentId, 'starts')).toBe('2');
  });

  it('an agent that can’t be frozen is stopped to sleep, and others are frozen', async () => {
    const [refused, other] = [await active(), await active()];
    engine.traits.pauseRefusal = REFUSAL_OF_ONE;
    expect(await ask('POST', refused, 'sleep')).toMatchObject({ status: 200, json: { status: 'sleeping' } });
    engine.traits.pauseRefusal = null;
    expect(await ask('POST', other, 'sleep')).toMatchObject({ status: 200, json: { status: 'sleeping' } });
    expect([await sleepsOf(refused), await sleepsOf(other)]).toEqual([['stopped'], ['frozen']]);
  });

  it('an agent that was thawed from outside during its sleep is stopped', async () => {
    const agentId = await active();
    await ask('POST', agentId, 'sleep');
    engine.traits.pauseRefusal = REFUSAL_OF_ONE;
    const [container] = (await runtime().inspect(agentId)).containers;
    await runtime().thaw(container?.handle ?? '');
    await until('it is stopped', async () => ((await sleepsOf(agentId)).at(-1) === 'stopped' ? true : undefined));
    expect((await bed.load(agentId)).state?.status).toBe('sleeping');
  });

  it('an agent that was frozen before wakes with its memory', async () => {
    const agentId = await active();
    expect(await told(agentId, 'count')).toBe('1');
    await ask('POST', agentId, 'sleep');
    engine.traits.pauseRefusal = REFUSAL;
    await ask('POST', await active(), 'sleep');
    expect(await runtime().capabilities()).toMatchObject({ freeze: false });
    expect(await sleepsOf(agentId)).toEqual(['frozen']);
    expect(await ask('POST', agentId, 'start')).toMatchObject({ status: 200, json: { status: 'active' } });
    expect(await told(agentId, 'count')).toBe('2');
  });
});

describe('on an engine that does not enforce limits, where they are required', () => {
  it('nothing is deployed or woken, and the reason is told; what runs goes on', async () => {
    const [running, asleep, fresh] = [await active(), await active(), await created()];
    await ask('POST', asleep, 'stop');
    await becomes({ info: { ...usual.info, ...UNLIMITED } }, ({ lack }) => lack?.includes('limits') === true);
    const reason = 'the engine does not enforce the limits of agents on memory, CPU and processes (MOORING_REQUIRE_LIMITS)';
    await ask('POST', fresh, 'deploy');
    const [deployment] = (await ask('GET', fresh, 'deployments')).json;
    expect(deployment).toMatchObject({ status: 'failed', message: expect.stringContaining(reason) });
    await ask('POST', asleep, 'start');
    const failed = (await bed.events(asleep)).find(({ type }) => type === 'AgentFailed');
    expect(failed?.data.reason).toContain(reason);
    expect(await told(running, 'starts')).toBe('1');
  });
});

describe('on an engine that is not supported', () => {
  it('a deployment fails at once with the reason, and all other agents are left until a supported one answers', async () => {
    const [running, stopped, fresh] = [await active(), await active(), await created()];
    await ask('POST', stopped, 'stop');
    await becomes({ version: PODMAN }, ({ lack }) => lack?.includes('Podman') === true);
    expect(await runtime().available()).toBe(false);
    await ask('POST', fresh, 'deploy');
    const [deployment] = (await ask('GET', fresh, 'deployments')).json;
    expect(deployment).toMatchObject({ status: 'failed', message: expect.stringMatching(/is Podman.*Docker Engine 20\.10 to 29/) });
    expect(await ask('POST', stopped, 'start', 1)).toMatchObject({ status: 202, json: { status: 'starting' } });
    expect((await bed.load(running)).state?.status).toBe('active');
    await becomes(usual, ({ lack }) => lack === null);
    await until('it is active', async () => ((await bed.load(stopped)).state?.status === 'active' ? true : undefined));
    expect(await told(running, 'starts')).toBe('1');
  });
});
