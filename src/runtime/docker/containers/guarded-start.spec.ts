import { PassThrough } from 'node:stream';
import type Dockerode from 'dockerode';
import { testContainerKey } from '../../../../test/support/container-key.ts';
import { RuntimeRefused, RuntimeUnavailable } from '../../runtime.errors.ts';
import { ContainerIdentities } from '../engine/container-identities.ts';
import { EngineHealth } from '../engine/engine-health.ts';
import { CALL_TIMEOUT_MS } from '../engine/engine.ts';
import { ContainerLookup } from './container-lookup.ts';
import { GuardedStart } from './guarded-start.ts';

describe('a container at whose start the engine hangs', () => {
  beforeEach(() => jest.useFakeTimers());
  afterEach(() => jest.useRealTimers());

  /** An engine that ends no call on the container once it was started. */
  function hangingEngine(isAway = false) {
    let isHung = false;
    const never = () => new Promise<never>(() => undefined);
    const container = {
      id: 'id',
      attach: async () => new PassThrough(),
      start: () => ((isHung = true), never()),
      inspect: async () =>
        isHung
          ? never()
          : {
              Id: 'id',
              Name: '/mooring-one',
              Image: 'image',
              State: { Status: 'created' },
              Config: { Labels: {} },
              HostConfig: {},
              Mounts: [],
            },
    };
    const docker = { getContainer: () => container } as unknown as Dockerode;
    const identities = new ContainerIdentities('abcdef012345', testContainerKey('abcdef012345'));
    const health = new EngineHealth(() => (isAway ? Promise.reject(new RuntimeUnavailable('')) : Promise.resolve()));
    const containers = new ContainerLookup(docker, identities, health);
    return { containers, starts: new GuardedStart(docker, identities, containers, health, { opensVolume: () => true }) };
  }

  const outcome = async (work: () => Promise<unknown>) => {
    const failed = work().catch((error: unknown) => error);
    await jest.advanceTimersByTimeAsync(CALL_TIMEOUT_MS);
    return failed;
  };

  it('is retried once, and then refused, by its id and its name', async () => {
    const { containers, starts } = hangingEngine();
    await starts.isStartable(await containers.inspect('id'));
    expect(await outcome(() => starts.start('id', Buffer.alloc(0)))).toBeInstanceOf(RuntimeUnavailable);
    expect(await outcome(() => starts.start('id', Buffer.alloc(0)))).toBeInstanceOf(RuntimeRefused);
    expect(await outcome(() => containers.inspect('mooring-one'))).toBeInstanceOf(RuntimeRefused);
    expect(await outcome(() => containers.inspect('another'))).toBeInstanceOf(RuntimeUnavailable);
  });

  it('is not blamed while the engine responds to no call', async () => {
    const { containers, starts } = hangingEngine(true);
    await starts.isStartable(await containers.inspect('id'));
    for (let n = 0; n < 3; n += 1) expect(await outcome(() => starts.start('id', Buffer.alloc(0)))).toBeInstanceOf(RuntimeUnavailable);
    expect(await outcome(() => containers.inspect('mooring-one'))).toBeInstanceOf(RuntimeUnavailable);
  });
});
