import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type Dockerode from 'dockerode';
import { namesSameImage, parseImageReference } from '../../image-reference.ts';
import { RuntimeRefused } from '../runtime.ts';
import type { ImageSource, ResolvedImage } from '../runtime.ts';
import { folderEntries, hashOf, tarOf } from './build-context.ts';
import type { TarEntry } from './build-context.ts';
import { startCommand } from './command.ts';
import { call, portErrors } from './engine.ts';
import { labels, networkName } from './names.ts';
import type { AgentNetworks } from './network.ts';
import { isLocalEngine } from './local-engine.ts';
import { ensureNodeBase } from './node-base.ts';
import { checkReference, findImage, follow, pull } from './registry.ts';

type Log = (line: string) => void;

const nodeBase = 'node:22-slim';
const registryAnswerMs = 5_000;
const registryForgivenMs = 10 * 60_000;
const buildMemoryBytes = 4 * 1024 ** 3;
/** Neither root nor a user of any image. */
const programUser = '10001:10001';
/** Where agents' volumes are mounted. A program's image has an empty folder there that every user may write to. */
const programVolume = 'data';
const mostRemembered = 10_000;
/** How long the base image that a program was built on is taken for the one to build on. */
const baseKeptMs = 10 * 60_000;

/** Finds, pulls and builds images. What it builds bears this instance's label and a tag, so that a prune leaves it. */
export class Images {
  private readonly docker: Dockerode;
  private readonly instance: string;
  private readonly networks: AgentNetworks;
  /** Milliseconds since 1970; a registry that didn't answer isn't asked again for some minutes. */
  private registryMissedAt = 0;
  private base: { name: string; until: number } | null = null;
  /** Ids of the programs' images that this process has built or found by their content: no label or name of a strange image gets in here. */
  private readonly programs = new Set<string>();

  constructor(docker: Dockerode, instance: string, networks: AgentNetworks) {
    this.docker = docker;
    this.instance = instance;
    this.networks = networks;
  }

  /** See `ContainerRuntime.ensureImage`. Throws the signal's reason where it is aborted. */
  async ensure(source: ImageSource, log: Log, signal: AbortSignal): Promise<ResolvedImage> {
    signal.throwIfAborted();
    try {
      switch (source.kind) {
        case 'reference':
          return await this.reference(source, log, signal);
        case 'dockerfile':
          return await this.dockerfile(source, log, signal);
        case 'program':
          return await this.program(source, log, signal);
      }
    } catch (error) {
      throw signal.aborted ? signal.reason : error;
    }
  }

  /** Whether a new volume that is mounted there gets a root from the image that every user may write to. */
  opensVolume(imageId: string, volumePath: string): boolean {
    return volumePath === `/${programVolume}` && this.programs.has(imageId);
  }

  private async reference(
    { reference, mayUse }: ImageSource & { kind: 'reference' },
    log: Log,
    signal: AbortSignal,
  ): Promise<ResolvedImage> {
    checkReference(reference);
    let found = await findImage(this.docker, reference);
    // What somebody else pulled or built is not there for this caller, until its registry gives it to him too.
    if (found === null || !bearsName(found, reference) || !(await mayUse(pinned(found, reference)))) {
      log(`Pulling ${reference}`);
      await pull(this.docker, reference, log, signal);
      found = await findImage(this.docker, reference);
      if (found === null) throw new RuntimeRefused(`The image ${reference} was pulled, but the engine does not have it.`);
    } else log(`Using ${reference}, which the engine has`);
    // A digest is known to the registry too, so the same image can be had again; what was never pulled has only its id.
    return { image: pinned(found, reference), name: reference, command: startCommand(found.Config, null) };
  }

  private async dockerfile(source: ImageSource & { kind: 'dockerfile' }, log: Log, signal: AbortSignal): Promise<ResolvedImage> {
    if (existsSync(join(source.directory, '.dockerignore'))) log('.dockerignore is not looked at: the whole folder is sent to the build');
    const id = await this.build(await folderEntries(source.directory, ''), source.dockerfile, null, log, signal);
    const name = `mooring-${this.instance}:build-${id.replace('sha256:', '').slice(0, 16)}`;
    const [repo = '', tag] = name.split(':');
    await call(null, (abortSignal) => this.docker.getImage(id).tag({ repo, tag, abortSignal }));
    return resolvedFrom(name, await this.found(name), source.start);
  }

  /** Tagged by its content, so what has not changed is not built again. */
  private async program(source: ImageSource & { kind: 'program' }, log: Log, signal: AbortSignal): Promise<ResolvedImage> {
    startCommand({}, source.start);
    const files = await folderEntries(source.directory, 'app/');
    const built = async (base: string) => {
      const entries = [...this.frame(base, source.start), ...files];
      const name = `mooring-${this.instance}:program-${(await hashOf(entries)).slice(0, 16)}`;
      return { entries, name, found: await findImage(this.docker, name) };
    };
    // Where it has been built on the base of a short while ago, nothing needs to be asked about that base.
    const base = this.base !== null && Date.now() < this.base.until ? this.base.name : null;
    let { entries, name, found } = await built(base ?? (await this.findBase(log, signal)));
    if (found === null && base !== null) ({ entries, name, found } = await built(await this.findBase(log, signal)));
    if (found === null) await this.build(entries, 'Dockerfile', name, log, signal);
    else log(`Nothing has changed since ${name} was built`);
    const resolved = resolvedFrom(name, found ?? (await this.found(name)), null);
    if (this.programs.size >= mostRemembered) this.programs.clear();
    this.programs.add(resolved.image);
    return resolved;
  }

  /** What stands around a program's files in its build. The folder comes last, so that the engine makes anew only what a change of the program asks for. */
  private frame(base: string, start: string[]): TarEntry[] {
    const dockerfile = [
      `FROM ${base}`,
      `LABEL ${labels.instance}=${this.instance}`,
      'ENV NODE_ENV=production HOME=/tmp',
      'WORKDIR /app',
      `USER ${programUser}`,
      `ENTRYPOINT ${JSON.stringify(start)}`,
      'COPY root/ /',
      'COPY app/ /app/',
      '',
    ].join('\n');
    return [
      { name: 'Dockerfile', type: 'file', mode: 0o644, content: dockerfile },
      { name: 'root', type: 'directory', mode: 0o755 },
      { name: `root/${programVolume}`, type: 'directory', mode: 0o777 },
      { name: 'app', type: 'directory', mode: 0o755 },
    ];
  }

  private async findBase(log: Log, signal: AbortSignal): Promise<string> {
    const name = await this.baseOfNode(log, signal);
    this.base = { name, until: Date.now() + baseKeptMs };
    return name;
  }

  private async found(name: string): Promise<Dockerode.ImageInspectInfo> {
    const found = await findImage(this.docker, name);
    if (found === null) throw new RuntimeRefused(`The image ${name} was built, but the engine does not have it.`);
    return found;
  }

  /** The image's id. The build's own steps run with limits and on the agents' network, where they reach no agent. */
  private async build(entries: TarEntry[], dockerfile: string, name: string | null, log: Log, signal: AbortSignal): Promise<string> {
    await this.networks.ensure('open');
    let id: string | undefined;
    const options = {
      ...(name === null ? {} : { t: name }),
      dockerfile,
      forcerm: true,
      memory: buildMemoryBytes,
      networkmode: networkName(this.instance),
      ...(name === null ? { labels: { [labels.instance]: this.instance } } : {}),
      abortSignal: signal,
    };
    const tar = tarOf(entries);
    const lines = new Lines(log);
    try {
      const stream = await portErrors(null, () => this.docker.buildImage(tar, options));
      await portErrors(null, () =>
        follow(stream, (step) => {
          id = step.aux?.ID ?? id;
          lines.take(step.stream ?? (step.status === undefined || step.progressDetail?.total !== undefined ? '' : `${step.status}\n`));
        }),
      );
    } finally {
      lines.end();
      tar.destroy();
    }
    if (id === undefined) throw new RuntimeRefused('The build ended without an image.');
    return id;
  }

  private async baseOfNode(log: Log, signal: AbortSignal): Promise<string> {
    if ((await findImage(this.docker, nodeBase)) !== null) return nodeBase;
    let missed = 'no registry answered a short while ago';
    if (Date.now() - this.registryMissedAt > registryForgivenMs) {
      try {
        log(`Pulling ${nodeBase}`);
        await pull(this.docker, nodeBase, log, signal, registryAnswerMs);
        return nodeBase;
      } catch (error) {
        if (signal.aborted || !(error instanceof RuntimeRefused)) throw error;
        missed = error.message;
        this.registryMissedAt = Date.now();
      }
    }
    if (!(await isLocalEngine(this.docker))) throw new RuntimeRefused(`The image ${nodeBase} can't be pulled: ${missed}`);
    log(`No registry was reached for ${nodeBase} (${missed})`);
    log(`Using this machine's own Node ${process.version} as the base image instead`);
    return ensureNodeBase(this.docker, signal);
  }
}

function resolvedFrom(name: string, { Id, Config }: Dockerode.ImageInspectInfo, start: string[] | null): ResolvedImage {
  return { image: Id, name, command: startCommand(Config, start) };
}

function pinned(image: Dockerode.ImageInspectInfo, reference: string): string {
  return digestOf(image, reference) ?? image.Id;
}

/** An engine finds an image by the beginning of its id as well, which is no name that anybody gave it. */
function bearsName({ RepoTags, RepoDigests }: Dockerode.ImageInspectInfo, reference: string): boolean {
  const wanted = parseImageReference(reference);
  if (wanted === null) return false;
  return [...(RepoTags ?? []), ...(RepoDigests ?? [])].some((name) => {
    const borne = parseImageReference(name);
    if (borne === null) return false;
    // A name with a digest may have a tag as well, which the digest outdoes.
    return namesSameImage(borne, wanted.digest === null ? wanted : { ...wanted, tag: null });
  });
}

function digestOf(image: Dockerode.ImageInspectInfo, reference: string): string | undefined {
  const digests = image.RepoDigests ?? [];
  const repository = reference.replace(/@.*$/, '').replace(/:[^/]*$/, '');
  return digests.find((digest) => digest.startsWith(`${repository}@`)) ?? digests[0];
}

/** Whole lines out of pieces. */
class Lines {
  private rest = '';
  private readonly log: Log;

  constructor(log: Log) {
    this.log = log;
  }

  take(piece: string): void {
    const lines = (this.rest + piece).split(/\r?\n/);
    this.rest = (lines.pop() ?? '').slice(-16_384);
    for (const line of lines) if (line !== '') this.log(line);
  }

  end(): void {
    if (this.rest !== '') this.log(this.rest);
  }
}
