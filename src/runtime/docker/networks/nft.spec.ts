import { PassThrough } from 'node:stream';

import type Dockerode from 'dockerode';

import { RuntimeUnavailable } from '../../runtime.errors.ts';
import { CALL_TIMEOUT_MS } from '../engine/engine.ts';
import { Nft } from './nft.ts';

describe('the rules of agents', () => {
  afterEach(() => jest.useRealTimers());

  it('are aborted if the engine hangs while it sends the output of nft', async () => {
    jest.useFakeTimers();
    const output = new PassThrough();
    const done = () => Promise.resolve({ StatusCode: 0 });
    const inspect = () => Promise.resolve({ State: { Status: 'created' } });
    const container = { id: 'x', inspect, putArchive: done, start: done, wait: done, remove: done, logs: () => Promise.resolve(output) };
    const docker = { createContainer: () => Promise.resolve(container) } as unknown as Dockerode;
    const nft = new Nft(docker, 'instance', { forRules: async () => 'nft', forNode: async () => 'node' });
    const outcome = nft.run('list counters').catch((error: unknown) => error);
    await jest.advanceTimersByTimeAsync(CALL_TIMEOUT_MS);
    expect(await outcome).toBeInstanceOf(RuntimeUnavailable);
    output.destroy();
  });
});
