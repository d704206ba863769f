import type Dockerode from 'dockerode';
import { testContainerKey } from '../../../../test/support/container-key.ts';
import { EngineUnsupported } from '../../runtime.errors.ts';
import { ContainerIdentities } from '../engine/container-identities.ts';
import { AgentEgress } from './agent-egress.ts';

describe('the rules of agents', () => {
  it('are not loaded on an engine that is not supported: it gets no call and no program', async () => {
    const asked: PropertyKey[] = [];
    const docker = new Proxy({} as Dockerode, { get: (_, name) => asked.push(name) });
    const identities = new ContainerIdentities('abcdef012345', testContainerKey('abcdef012345'));
    const ready = () => Promise.reject(new EngineUnsupported('it is Podman'));
    const egress = new AgentEgress({ docker, identities, mode: 'internet', open: [], ready, image: null });
    await expect(egress.settle()).rejects.toThrow('it is Podman');
    egress.close();
    expect(asked).toEqual([]);
  });
});
