import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type Dockerode from 'dockerode';

import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { raceAbort } from '../../../kernel/async/race-abort.ts';
import { RuntimeRefused } from '../../runtime.errors.ts';
import { call, portErrors } from '../engine/engine.ts';
import { folderEntries, hashOf, tarOf, type TarEntry } from './build-context.ts';
import { findImage, follow, pull } from './registry.ts';

const MAKING_MS = 15 * 60_000;
/** The engine's output lines that begin a step of the build. */
const stepLine = /^Step \d+\/\d+ : [A-Z]+/;
/** The line that engines write when they have loaded an image. */
const loadedLine = /Loaded image(?: ID)?: (\S+)/;

type Log = (line: string) => void;

/** An image of programs that the service itself runs on the engine. */
export interface ServiceImageSource {
  /** The name of the image that the operator configured, or the path of a tar of it; null stands for our Dockerfile. */
  given: string | null;
  /** The folder of our Dockerfile, and the repository of the images built from it. */
  folder: URL;
  repo: string;
  /** The subfolder whose files the Dockerfile copies; without it there are none. */
  files?: string;
  /** The name of the image's user in messages to the operator, and the setting that configures the image. */
  owner: string;
  setting: string;
  /** The sentence that says what does not work if our Dockerfile can't be built. */
  unmade: string;
}

/** Provides an image of the service's programs: the operator's, or one that the engine builds from our Dockerfile. */
export class ServiceImage {
  private making: Promise<string> | null = null;

  constructor(
    private readonly docker: Dockerode,
    private readonly source: ServiceImageSource,
  ) {}

  /** Returns the image's id. Concurrent callers share the work, and the signal of one of them does not abort it for the others. */
  ensure(log: Log, signal: AbortSignal): Promise<string> {
    this.making ??= this.make(log, timeoutSignal(MAKING_MS)).finally(() => (this.making = null));
    this.making.catch(() => undefined);
    return raceAbort(this.making, signal);
  }

  /** Returns the name under which the engine has the image once it was ensured. */
  async name(): Promise<string> {
    const { given, repo } = this.source;
    if (given === null) return `${repo}:${(await this.context()).tag}`;
    return isPath(given) ? `${repo}:${await this.tagOfTar(given)}` : given;
  }

  private async make(log: Log, signal: AbortSignal): Promise<string> {
    const { given } = this.source;
    const name = await this.name();
    if ((await findImage(this.docker, name)) === null) {
      if (given === null) await this.build(name, log, signal);
      else if (isPath(given)) await this.load(given, name, signal);
      else await pull(this.docker, name, log, signal);
    }
    return this.idOf(name);
  }

  private async tagOfTar(path: string): Promise<string> {
    const { owner, setting } = this.source;
    const found = await stat(path).catch(() => null);
    if (found === null) throw new RuntimeRefused(`The tar of the image of ${owner} can’t be read (${setting}).`);
    return keyOf(path, String(found.size), String(found.mtimeMs));
  }

  private async load(path: string, name: string, signal: AbortSignal): Promise<void> {
    const { owner, setting } = this.source;
    let loaded: string | undefined;
    await portErrors(null, async () => {
      const stream = await this.docker.loadImage(createReadStream(path), { abortSignal: signal } as object);
      await follow(stream, ({ stream: said }) => (loaded = loadedLine.exec(said ?? '')?.[1] ?? loaded));
    });
    if (loaded === undefined) throw new RuntimeRefused(`The tar of the image of ${owner} holds no image (${setting}).`);
    const image = this.docker.getImage(loaded);
    const [repo = '', tag] = name.split(':');
    await call(null, (abortSignal) => image.tag({ repo, tag, abortSignal }));
  }

  private async build(name: string, log: Log, signal: AbortSignal): Promise<void> {
    const { owner, setting, unmade } = this.source;
    log(`Making the image of ${owner}, which is done once`);
    const tar = tarOf((await this.context()).entries);
    try {
      await portErrors(null, async () => {
        const stream = await this.docker.buildImage(tar, { t: name, forcerm: true, abortSignal: signal });
        await follow(stream, ({ stream: said }) => {
          const step = stepLine.exec(said ?? '')?.[0];
          if (step !== undefined) log(step);
        });
      });
    } catch (error) {
      if (!(error instanceof RuntimeRefused)) throw error;
      const message = `${unmade}: its base images or its packages could not be downloaded. The operator can give it with ${setting}.`;
      throw new RuntimeRefused(message, { cause: error });
    } finally {
      tar.destroy();
    }
  }

  /** Returns the content of the image, and a tag that depends on the content. */
  private async context(): Promise<{ entries: TarEntry[]; tag: string }> {
    const { files } = this.source;
    const folder = fileURLToPath(this.source.folder);
    const content = await readFile(join(folder, 'Dockerfile'));
    const dockerfile: TarEntry = { name: 'Dockerfile', type: 'file', mode: 0o644, content };
    if (files === undefined) return { entries: [dockerfile], tag: keyOf(content.toString('utf8')) };
    const entries = [dockerfile, ...(await folderEntries(join(folder, files), `${files}/`))];
    return { entries, tag: (await hashOf(entries)).slice(0, 16) };
  }

  private async idOf(name: string): Promise<string> {
    const found = await findImage(this.docker, name);
    if (found === null) throw new RuntimeRefused(`The image of ${this.source.owner}, ${name}, is not there (${this.source.setting}).`);
    return found.Id;
  }
}

/** Returns whether the setting is the path of a tar, rather than the name of an image. */
const isPath = (given: string): boolean => /^[./]/.test(given);

const keyOf = (...parts: string[]): string => createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 16);
