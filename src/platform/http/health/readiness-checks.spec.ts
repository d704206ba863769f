import type { ModuleRef } from '@nestjs/core';

import { ContainerRuntime, type EgressStatus } from '../../runtime/runtime.ts';
import { ReadinessChecks } from './readiness-checks.service.ts';

/** Returns what `/ready` reports of agents' egress, and the status of the service if nothing else is wrong. */
async function told(egress: EgressStatus | null) {
  const runtime = { ping: async () => undefined, egress: async () => egress };
  const parts = { query: async () => [], ping: async () => undefined, retention: async () => null, progress: async () => [] };
  const modules = { get: (token: unknown) => (token === ContainerRuntime ? runtime : parts) } as unknown as ModuleRef;
  const { status, dependencies } = await new ReadinessChecks(modules).look();
  return { status, egress: dependencies.find(({ name }) => name === 'agent_egress') };
}

const well: EgressStatus = { lack: null, proxyLack: null, refused: new Map(), refusedRequests: new Map() };

describe('what agents may reach', () => {
  it('is reported as unavailable if it is not enforced, and the service is only degraded', async () => {
    expect(await told({ ...well, lack: 'this machine has no nft' })).toEqual({
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

  it('is ok if it is enforced, and left out if the runtime has no such rules', async () => {
    const ok = { name: 'agent_egress', status: 'ok', required: false };
    expect(await told(well)).toEqual({ status: 'ready', egress: ok });
    expect(await told(null)).toEqual({ status: 'ready', egress: undefined });
  });
});
