import type { ModuleRef } from '@nestjs/core';

import { findSomeGit } from '../../../test/support/some-git.ts';
import type { AgentPorts } from '../../runtime/agent-ports.ts';
import type { DockerfileBuilds, EgressStatus, EngineStatus } from '../../runtime/engine-status.ts';
import { ContainerRuntime } from '../../runtime/runtime.ts';
import { ReadinessChecks } from './readiness-checks.service.ts';

/** Returns what `/ready` reports of agents' egress, and the status of the service if nothing else is wrong. */
async function told(
  egress: EgressStatus | null,
  engine: Partial<EngineStatus> = {},
  { lack = null, weakness = null }: Partial<DockerfileBuilds> = {},
  ports: AgentPorts | null = null,
) {
  const runtime = {
    ping: async () => undefined,
    egress: async () => egress,
    engineStatus: async () => ({ lack: null, warnings: [], ...engine }),
    agentPorts: async () => ports,
    dockerfileBuilds: async () => ({ lack, weakness }),
  };
  const parts = { ping: async () => undefined, retention: async () => null, progress: async () => [] };
  const modules = { get: (token: unknown) => (token === ContainerRuntime ? runtime : parts) } as unknown as ModuleRef;
  const { status, dependencies } = await new ReadinessChecks(modules).latest();
  const find = (wanted: string) => dependencies.find(({ name }) => name === wanted);
  return {
    status,
    egress: find('agent_egress'),
    builds: find('image_builds'),
    ports: find('agent_ports'),
    git: find('git'),
    runtime: find('runtime'),
  };
}

findSomeGit();

const well: EgressStatus = { lack: null, linkLack: null, proxyLack: null, refused: new Map(), refusedRequests: new Map() };

describe('what agents may reach', () => {
  it('is reported as unavailable if it is not enforced, and the service is only degraded', async () => {
    expect(await told({ ...well, lack: 'this machine has no nft' })).toMatchObject({
      status: 'degraded',
      egress: {
        name: 'agent_egress',
        status: 'unavailable',
        required: false,
        detail: 'what agents may reach is not enforced: this machine has no nft',
      },
    });
  });

  it('is reported as unavailable if agents with a list of names have no proxy', async () => {
    expect(await told({ ...well, proxyLack: 'the networks are gone' })).toMatchObject({
      status: 'degraded',
      egress: { status: 'unavailable', required: false, detail: 'agents with a list of names reach nothing: the networks are gone' },
    });
  });

  it('is reported as unavailable if agents share a link, together with what else is missing', async () => {
    const detail = 'agents are not kept from each other’s frames: Operation not supported';
    expect(await told({ ...well, linkLack: 'Operation not supported' })).toMatchObject({
      status: 'degraded',
      egress: { status: 'unavailable', required: false, detail },
    });
    expect((await told({ ...well, lack: 'no nft', linkLack: 'no nft' })).egress?.detail).toBe(
      'what agents may reach is not enforced: no nft; agents are not kept from each other’s frames: no nft',
    );
  });

  it('is ok if it is enforced, and omitted if the runtime has no such rules', async () => {
    const ok = { name: 'agent_egress', status: 'ok', required: false };
    expect(await told(well)).toMatchObject({ status: 'ready', egress: ok });
    expect(await told(null)).toMatchObject({ status: 'ready', egress: undefined });
  });
});

describe('an engine with known faults', () => {
  it('is named in the detail, and the service stays ready', async () => {
    const runtime = { name: 'runtime', status: 'ok', required: false };
    const warnings = ['upgrade it', 'no limits'];
    expect(await told(well, { warnings })).toMatchObject({ status: 'ready', runtime: { ...runtime, detail: 'upgrade it; no limits' } });
    expect((await told(well)).runtime).toEqual(runtime);
  });

  it('is unavailable if no agent can start on it, with the reason, and the service is only degraded', async () => {
    const runtime = { name: 'runtime', status: 'unavailable', required: false, detail: 'it is Podman' };
    expect(await told(well, { lack: 'it is Podman', warnings: ['upgrade it'] })).toMatchObject({ status: 'degraded', runtime });
  });
});

describe('the ports of agents', () => {
  const weakness = 'messages travel in clear';
  const seen = (ports: AgentPorts | null) => told(well, {}, {}, ports);

  it('are reported with the weakness of their protection, and the service is ready', async () => {
    const ok = { name: 'agent_ports', status: 'ok', required: false, detail: weakness };
    expect(await seen({ lack: null, weakness })).toMatchObject({ status: 'ready', ports: ok });
    expect((await seen(null)).ports).toBeUndefined();
  });

  it('are reported as unavailable if other clients can reach them, and the service is only degraded', async () => {
    const detail = 'no agent starts, since others are not kept from its port: no nft';
    expect(await seen({ lack: 'no nft', weakness })).toMatchObject({ status: 'degraded', ports: { status: 'unavailable', detail } });
  });
});

describe('the builds of Dockerfiles', () => {
  const ok = { name: 'image_builds', status: 'ok', required: false };

  it('are reported with the weakness of their isolation, and the service is ready', async () => {
    expect(await told(well)).toMatchObject({ status: 'ready', builds: ok });
    const weakness = 'builds are not isolated from each other';
    expect(await told(well, {}, { weakness })).toMatchObject({ status: 'ready', builds: { ...ok, detail: weakness } });
  });

  it('are reported with the reason once it is known that there can be none, and the service is only degraded', async () => {
    const lack = 'No Dockerfile can be built here: …';
    expect(await told(well, {}, { lack, weakness: 'more' })).toMatchObject({
      status: 'degraded',
      builds: { ...ok, status: 'unavailable', detail: lack },
    });
  });
});

describe('a machine without git', () => {
  it('is reported, and the service is only degraded', async () => {
    expect(await told(well)).toMatchObject({ status: 'ready', git: { status: 'ok', required: false } });
    process.env.PATH = '/nowhere:/proc';
    expect(await told(well)).toMatchObject({
      status: 'degraded',
      git: { status: 'unavailable', required: false, detail: expect.stringContaining('this machine has no git') },
    });
  });
});

describe('a check of the dependencies', () => {
  const parts = (progress: () => Promise<object[]>) => ({
    ping: async () => undefined,
    retention: async () => null,
    egress: async () => null,
    engineStatus: async () => ({ lack: null, warnings: [] }),
    dockerfileBuilds: async () => null,
    progress,
  });
  const checksOf = (all: object) => new ReadinessChecks({ get: () => all } as unknown as ModuleRef);

  it('runs once for all concurrent requests, and within a second', async () => {
    const progress = jest.fn(async () => []);
    const checks = checksOf(parts(progress));
    const answers = await Promise.all(Array.from({ length: 300 }, () => checks.latest()));
    expect(answers.every(({ dependencies }) => dependencies.some(({ name }) => name === 'read_models'))).toBe(true);
    await checks.latest();
    expect(progress).toHaveBeenCalledTimes(1);
  });

  it('reports the service only as degraded if read models that were ready are late to report their positions', async () => {
    jest.useFakeTimers();
    try {
      const never = new Promise<object[]>(() => undefined);
      const progress = jest.fn(() => never);
      progress.mockResolvedValueOnce([{ name: 'agents', ready: true, serving: true, reason: null }]);
      const checks = checksOf(parts(progress));
      const latest = async () => {
        // The check before is too old by then.
        await jest.advanceTimersByTimeAsync(2_000);
        const asked = checks.latest();
        await jest.advanceTimersByTimeAsync(5_000);
        const { status, dependencies } = await asked;
        return { status, readModels: dependencies.find(({ name }) => name === 'read_models') };
      };
      const readModels = { name: 'read_models', status: 'ok', required: true };
      expect(await latest()).toMatchObject({ readModels });
      expect(await latest()).toMatchObject({ status: 'degraded', readModels: { ...readModels, status: 'unavailable', required: false } });
      const beforeTheFirst = checksOf(parts(() => never)).latest();
      await jest.advanceTimersByTimeAsync(5_000);
      expect(await beforeTheFirst).toMatchObject({ status: 'unavailable' });
    } finally {
      jest.useRealTimers();
    }
  });
});
