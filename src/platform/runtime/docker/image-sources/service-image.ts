import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type Dockerode from 'dockerode';

import { timeoutSignal } from '../../../async/timeout-signal.ts';
import { unlessAborted } from '../../../async/unless-aborted.ts';
import { RuntimeRefused } from '../../runtime.ts';
import { call, portErrors } from '../engine/engine.ts';
import { tarOf } from './build-context.ts';
import { findImage, follow, pull } from './registry.ts';

const MAKING_MS = 15 * 60_000;
/** The line that engines write when they have loaded an image. */
const loadedLine = /Loaded image(?: ID)?: (\S+)/;

type Log = (line: string) => void;

/** An image of programs that the service runs on the engine. */
export interface ServiceImageSource {
  /** The name of the image that the operator gives, or the path of a tar of it; null stands for our Dockerfile. */
  given: string | null;
  /** The folder of our Dockerfile, and the repository of what is made of it. */
  folder: URL;
  repo: string;
  /** The image's owner in messages to the operator, and the setting by which it is given. */
  owner: string;
  setting: string;
  /** The sentence that says what can't be done if it can't be made of our Dockerfile. */
  unmade: string;
}

/** Provides an image of the service's programs: the operator's, or one that the engine makes of our Dockerfile. */
export class ServiceImage {
  private making: Promise<string> | null = null;

  constructor(
    private readonly docker: Dockerode,
    private readonly source: ServiceImageSource,
  ) {}

  /** Returns the image's id. Callers at the same time share the work, which the signal of one of them does not end. */
  ensure(log: Log, signal: AbortSignal): Promise<string> {
    this.making ??= this.make(log, timeoutSignal(MAKING_MS)).finally(() => (this.making = null));
    this.making.catch(() => undefined);
    return unlessAborted(this.making, signal);
  }

  private async make(log: Log, signal: AbortSignal): Promise<string> {
    const { given } = this.source;
    if (given === null) return this.fromDockerfile(log, signal);
    return /^[./]/.test(given) ? this.fromTar(given, signal) : this.named(given, log, signal);
  }

  private async named(name: string, log: Log, signal: AbortSignal): Promise<string> {
    if ((await findImage(this.docker, name)) === null) await pull(this.docker, name, log, signal);
    return this.idOf(name);
  }

  private async fromTar(path: string, signal: AbortSignal): Promise<string> {
    const { repo, owner, setting } = this.source;
    const found = await stat(path).catch(() => null);
    if (found === null) throw new RuntimeRefused(`The tar of the image of ${owner} can’t be read (${setting}).`);
    const tag = keyOf(path, String(found.size), String(found.mtimeMs));
    const name = `${repo}:${tag}`;
    if ((await findImage(this.docker, name)) === null) {
      let loaded: string | undefined;
      await portErrors(null, async () => {
        const stream = await this.docker.loadImage(createReadStream(path), { abortSignal: signal } as object);
        await follow(stream, ({ stream: said }) => (loaded = loadedLine.exec(said ?? '')?.[1] ?? loaded));
      });
      if (loaded === undefined) throw new RuntimeRefused(`The tar of the image of ${owner} holds no image (${setting}).`);
      const image = this.docker.getImage(loaded);
      await call(null, (abortSignal) => image.tag({ repo, tag, abortSignal }));
    }
    return this.idOf(name);
  }

  private async fromDockerfile(log: Log, signal: AbortSignal): Promise<string> {
    const { folder, repo, owner, setting, unmade } = this.source;
    const content = await readFile(fileURLToPath(new URL('Dockerfile', folder)));
    const name = `${repo}:${keyOf(content.toString('utf8'))}`;
    if ((await findImage(this.docker, name)) === null) {
      log(`Making the image of ${owner}, which is done once`);
      const tar = tarOf([{ name: 'Dockerfile', type: 'file', mode: 0o644, content }]);
      try {
        await portErrors(null, async () => {
          const stream = await this.docker.buildImage(tar, { t: name, forcerm: true, abortSignal: signal });
          await follow(stream, () => undefined);
        });
      } catch (error) {
        if (!(error instanceof RuntimeRefused)) throw error;
        throw new RuntimeRefused(`${unmade}: its base images were not had from their registry. The operator can give it with ${setting}.`, {
          cause: error,
        });
      } finally {
        tar.destroy();
      }
    }
    return this.idOf(name);
  }

  private async idOf(name: string): Promise<string> {
    const found = await findImage(this.docker, name);
    if (found === null) throw new RuntimeRefused(`The image of ${this.source.owner}, ${name}, is not there (${this.source.setting}).`);
    return found.Id;
  }
}

const keyOf = (...parts: string[]): string => createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 16);
