import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type Dockerode from 'dockerode';

import { timeoutSignal } from '../../../async/timeout-signal.ts';
import { unlessAborted } from '../../../async/unless-aborted.ts';
import { RuntimeRefused } from '../../runtime.ts';
import { call, portErrors } from '../engine/engine.ts';
import { tarOf } from '../image-sources/build-context.ts';
import { findImage, follow, pull } from '../image-sources/registry.ts';

const folder = new URL('../../../../../deploy/builder/', import.meta.url);
const MAKING_MS = 15 * 60_000;
/** The line that engines write when they have loaded an image. */
const loadedLine = /Loaded image(?: ID)?: (\S+)/;

type Log = (line: string) => void;

/** Returns the text of the builders' seccomp profile. */
export const readSeccomp = (): Promise<string> => readFile(fileURLToPath(new URL('seccomp.json', folder)), 'utf8');

/** Provides the image of the builders: the operator's, or one that the engine makes of our Dockerfile. */
export class BuilderImage {
  private making: Promise<string> | null = null;

  /** `given` is the name of an image, or the path of a tar of one; null stands for our Dockerfile. */
  constructor(
    private readonly docker: Dockerode,
    private readonly given: string | null,
  ) {}

  /** Returns the image's id. Callers at the same time share the work, which the signal of one of them does not end. */
  ensure(log: Log, signal: AbortSignal): Promise<string> {
    this.making ??= this.make(log, timeoutSignal(MAKING_MS)).finally(() => (this.making = null));
    this.making.catch(() => undefined);
    return unlessAborted(this.making, signal);
  }

  private async make(log: Log, signal: AbortSignal): Promise<string> {
    if (this.given === null) return this.fromDockerfile(log, signal);
    return /^[./]/.test(this.given) ? this.fromTar(this.given, signal) : this.named(this.given, log, signal);
  }

  private async named(name: string, log: Log, signal: AbortSignal): Promise<string> {
    if ((await findImage(this.docker, name)) === null) await pull(this.docker, name, log, signal);
    return this.idOf(name);
  }

  private async fromTar(path: string, signal: AbortSignal): Promise<string> {
    const found = await stat(path).catch(() => null);
    if (found === null) throw new RuntimeRefused('The tar of the builder’s image can’t be read (MOORING_BUILDER_IMAGE).');
    const tag = keyOf(path, String(found.size), String(found.mtimeMs));
    const name = `mooring-builder:${tag}`;
    if ((await findImage(this.docker, name)) === null) {
      let loaded: string | undefined;
      await portErrors(null, async () => {
        const stream = await this.docker.loadImage(createReadStream(path), { abortSignal: signal } as object);
        await follow(stream, ({ stream: said }) => (loaded = loadedLine.exec(said ?? '')?.[1] ?? loaded));
      });
      if (loaded === undefined) throw new RuntimeRefused('The tar of the builder’s image holds no image (MOORING_BUILDER_IMAGE).');
      const image = this.docker.getImage(loaded);
      await call(null, (abortSignal) => image.tag({ repo: 'mooring-builder', tag, abortSignal }));
    }
    return this.idOf(name);
  }

  private async fromDockerfile(log: Log, signal: AbortSignal): Promise<string> {
    const content = await readFile(fileURLToPath(new URL('Dockerfile', folder)));
    const name = `mooring-builder:${keyOf(content.toString('utf8'))}`;
    if ((await findImage(this.docker, name)) === null) {
      log('Making the image of the builder, which is done once');
      const tar = tarOf([{ name: 'Dockerfile', type: 'file', mode: 0o644, content }]);
      try {
        await portErrors(null, async () => {
          const stream = await this.docker.buildImage(tar, { t: name, forcerm: true, abortSignal: signal });
          await follow(stream, () => undefined);
        });
      } catch (error) {
        if (!(error instanceof RuntimeRefused)) throw error;
        throw new RuntimeRefused(
          'No Dockerfile can be built, since the image of the builder can’t be made: its base images were not had from their registry. ' +
            'The operator can give it with MOORING_BUILDER_IMAGE.',
          { cause: error },
        );
      } finally {
        tar.destroy();
      }
    }
    return this.idOf(name);
  }

  private async idOf(name: string): Promise<string> {
    const found = await findImage(this.docker, name);
    if (found === null) throw new RuntimeRefused(`The image of the builder, ${name}, is not there (MOORING_BUILDER_IMAGE).`);
    return found.Id;
  }
}

const keyOf = (...parts: string[]): string => createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 16);
