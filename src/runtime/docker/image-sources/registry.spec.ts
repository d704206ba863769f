import { PassThrough } from 'node:stream';

import type Dockerode from 'dockerode';

import { findImage, pull } from './registry.ts';

const SILENCE_MS = 1_500;
const NO_PROGRESS = /made no progress for 1.5 s/;

describe('the timeout of a pull', () => {
  beforeEach(() => void jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'performance'] }));
  afterEach(() => void jest.useRealTimers());

  it('restarts with each progress, and not with repeated reports', async () => {
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

describe('an image', () => {
  const engine = (statusCode: number, message: string) => {
    const inspect = () => Promise.reject(Object.assign(new Error(message), { statusCode, json: { message } }));
    return { getImage: () => ({ inspect }) } as unknown as Dockerode;
  };

  it('is not there while the engine removes it', async () => {
    expect(await findImage(engine(404, 'No such image: team/agent:1'), 'team/agent:1')).toBeNull();
    expect(await findImage(engine(500, 'layer does not exist'), 'team/agent:1')).toBeNull();
    await expect(findImage(engine(500, 'the disk is broken'), 'team/agent:1')).rejects.toThrow('the disk is broken');
  });
});
