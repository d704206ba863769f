import { PassThrough } from 'node:stream';

import Dockerode from 'dockerode';

import { describeWithDocker } from '../../../../../test/support/docker.ts';
import { TestRegistry } from '../../../../../test/support/test-registry.ts';
import { RuntimeRefused } from '../../runtime.ts';
import { pull } from './registry.ts';

const SILENCE_MS = 1_500;
const NO_PROGRESS = /made no progress for 1.5 s/;

describeWithDocker('a pull', () => {
  const never = new AbortController().signal;
  let registry: TestRegistry;

  beforeEach(async () => void (registry = await TestRegistry.start({ credential: null })));
  afterEach(() => registry.close());

  const pulled = () => pull(new Dockerode(), registry.image, () => undefined, never, { silenceMs: SILENCE_MS });

  it('is given up if the registry does not begin a layer', async () => {
    void registry.held.hold(/\/blobs\//);
    const given = pulled();
    await expect(given).rejects.toThrow(NO_PROGRESS);
    await expect(given).rejects.toThrow(RuntimeRefused);
  });

  it('is given up if a layer trickles for ever', async () => {
    registry.trickle = true;
    await expect(pulled()).rejects.toThrow(NO_PROGRESS);
  });
});

describe('the patience with a pull', () => {
  beforeEach(() => void jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'performance'] }));
  afterEach(() => void jest.useRealTimers());

  it('begins anew with each progress, and not with what is told again', async () => {
    const engine = new PassThrough();
    const createImage = (_: unknown, { abortSignal }: { abortSignal: AbortSignal }) => {
      abortSignal.addEventListener('abort', () => engine.destroy(abortSignal.reason as Error));
      return Promise.resolve(engine);
    };
    const says = async (current: number) => {
      engine.write(`${JSON.stringify({ status: 'Downloading', id: 'a', progressDetail: { current, total: 1_000 } })}\n`);
      await new Promise(setImmediate);
      await jest.advanceTimersByTimeAsync(SILENCE_MS - 100);
    };
    let outcome = 'pulling';
    const docker = { createImage } as unknown as Dockerode;
    const pulling = pull(docker, 'team/agent:1', () => undefined, new AbortController().signal, { silenceMs: SILENCE_MS }).then(
      () => (outcome = 'pulled'),
      (error: Error) => (outcome = error.message),
    );
    for (let current = 1; current <= 10; current += 1) await says(current);
    expect(outcome).toBe('pulling');
    await says(10);
    await pulling;
    expect(outcome).toMatch(NO_PROGRESS);
  });
});
