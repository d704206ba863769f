import { Readable } from 'node:stream';
import type Dockerode from 'dockerode';
import { RuntimeRefused } from '../../runtime.errors.ts';
import { EgressImages } from './egress-images.ts';

/** An engine of another kind of machine, which has no image yet, and makes one when it is told how that ends. */
class ForeignEngine {
  builds = 0;
  private hasImage = false;
  private end: (line: object) => void = () => undefined;

  readonly docker = {
    version: async () => ({ Os: 'linux', Arch: 'riscv64' }),
    getImage: () => ({
      inspect: async () => {
        if (this.hasImage) return { Id: 'sha256:made' };
        throw Object.assign(new Error('no such image'), { statusCode: 404 });
      },
    }),
    buildImage: async (tar: Readable) => {
      this.builds += 1;
      tar.resume();
      const line = await new Promise<object>((resolve) => (this.end = resolve));
      return Readable.from([Buffer.from(`${JSON.stringify(line)}\n`)]);
    },
  } as unknown as Dockerode;

  /** Resolves when so many builds have begun. */
  async began(builds: number): Promise<void> {
    while (this.builds < builds) await jest.advanceTimersByTimeAsync(1);
  }

  async endBuild(line: object): Promise<void> {
    await this.began(1);
    this.hasImage = !('error' in line);
    this.end(line);
  }
}

describe('the image of the egress rules, on an engine that does not run this machine’s programs', () => {
  beforeEach(() => jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate'] }));
  afterEach(() => jest.useRealTimers());

  it('is built once while no caller waits for long, and is reported when it is available', async () => {
    const engine = new ForeignEngine();
    const onMade = jest.fn();
    const images = new EgressImages(engine.docker, null, onMade);
    expect(await images.ended()).toBe(false);
    const [rules, node] = [images.forRules().catch((error: unknown) => error), images.forNode().catch((error: unknown) => error)];
    await jest.advanceTimersByTimeAsync(5_000);
    for (const outcome of [await rules, await node])
      expect(outcome).toMatchObject({ name: 'RuntimeRefused', message: expect.stringContaining('is being made') });
    const ended = images.ended();
    await engine.endBuild({ stream: 'done' });
    expect(await ended).toBe(true);
    expect(await images.forRules()).toBe('sha256:made');
    expect(engine.builds).toBe(1);
    expect(onMade).toHaveBeenCalled();
  });

  it('is not retried for a while if it can’t be built, and the error says how the operator can provide it', async () => {
    const engine = new ForeignEngine();
    const images = new EgressImages(engine.docker, null);
    const outcome = images.forRules();
    outcome.catch(() => undefined);
    await engine.endBuild({ error: 'dial tcp: no such host' });
    await expect(outcome).rejects.toThrow(/can’t be made on this engine.*MOORING_EGRESS_IMAGE/);
    await expect(images.forRules()).rejects.toThrow(RuntimeRefused);
    expect(engine.builds).toBe(1);
    await jest.advanceTimersByTimeAsync(5 * 60_000);
    images.forRules().catch(() => undefined);
    await engine.began(2);
    await engine.endBuild({ error: 'dial tcp: no such host' });
  });
});
