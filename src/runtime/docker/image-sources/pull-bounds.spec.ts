import { PassThrough } from 'node:stream';
import type Dockerode from 'dockerode';
import { RuntimeRefused } from '../../runtime.errors.ts';
import { isNearlyFull, type Disk } from './pull-bounds.ts';
import { pull } from './registry.ts';

const GIB = 1024 ** 3;

/** An engine that tells the steps of a pull, and goes on with it until it is called off. */
function engineThatSays(...steps: object[]): { docker: Dockerode; engine: PassThrough } {
  const engine = new PassThrough();
  const createImage = (_: unknown, { abortSignal }: { abortSignal: AbortSignal }) => {
    abortSignal.addEventListener('abort', () => engine.destroy(abortSignal.reason as Error));
    for (const step of steps) engine.write(`${JSON.stringify(step)}\n`);
    return Promise.resolve(engine);
  };
  return { docker: { createImage } as unknown as Dockerode, engine };
}

const layer = (id: string, total: number) => ({ status: 'Downloading', id, progressDetail: { current: 1, total } });

describe('a pull', () => {
  const pulled = (docker: Dockerode, disk: () => Promise<Disk | null>) =>
    pull(docker, 'team/agent:1', () => undefined, new AbortController().signal, { bounds: { maxBytes: 100 * 1024 * 1024, disk } });
  const unknown = async () => null;

  it('is aborted when the layers that it has to fetch exceed the limit of an image together', async () => {
    const { docker, engine } = engineThatSays(layer('a', 60 * 1024 * 1024), layer('b', 60 * 1024 * 1024));
    const outcome = pulled(docker, unknown);
    await expect(outcome).rejects.toThrow('more than 100 MiB');
    await expect(outcome).rejects.toThrow(RuntimeRefused);
    expect(engine.destroyed).toBe(true);
  });

  it('is aborted when its unpacked layers leave hardly any space on the engine’s disk', async () => {
    let freeBytes = 50 * GIB;
    const { docker, engine } = engineThatSays(layer('a', 600_000));
    const outcome = pulled(docker, async () => ({ freeBytes: (freeBytes -= 40 * GIB), sizeBytes: 100 * GIB }));
    await expect(outcome).rejects.toThrow('nearly full');
    expect(engine.destroyed).toBe(true);
  });

  it('continues otherwise, and if the disk is unknown', async () => {
    for (const disk of [unknown, async () => ({ freeBytes: 50 * GIB, sizeBytes: 100 * GIB })]) {
      const { docker, engine } = engineThatSays(layer('a', 60 * 1024 * 1024), { status: 'Already exists', id: 'b' });
      setImmediate(() => engine.end());
      await expect(pulled(docker, disk)).resolves.toBeUndefined();
    }
  });
});

describe('a disk', () => {
  it('is nearly full when less than a twentieth of it, and less than 4 GiB, are free', () => {
    const at = (free: number, size: number) => isNearlyFull({ freeBytes: free * GIB, sizeBytes: size * GIB });
    expect([at(0.9, 20), at(1.1, 20), at(3.9, 1_000), at(4.1, 1_000)]).toEqual([true, false, true, false]);
  });
});
