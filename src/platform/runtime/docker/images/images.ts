import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type Dockerode from 'dockerode';
import { namesSameImage, parseImageReference } from '../../../image-reference.ts';
import { RuntimeRefused, type ImageSource, type ResolvedImage } from '../../runtime.ts';
import { folderEntries, hashOf, tarOf, type TarEntry } from '../image-sources/build-context.ts';
import { startCommand } from './command.ts';
import { call, portErrors } from '../engine/engine.ts';
import { labels, networkName } from '../engine/names.ts';
import type { AgentNetworks } from '../networks/agent-networks.ts';
import { isLocalEngine } from '../engine/local-engine.ts';
import { ensureNodeBase } from '../image-sources/node-base.ts';
import { checkReference, findImage, follow, pull } from '../image-sources/registry.ts';

type Log = (line: string) => void;

const nodeBase = 'node:22-slim';
const REGISTRY_TIMEOUT_MS = 5_000;
const REGISTRY_FORGIVEN_MS = 10 * 60_000;
const BUILD_MEMORY_BYTES = 4 * 1024 ** 3;
/** A user that is neither root nor a user of any image. */
const programUser = '10001:10001';
/** The mount point of agents' volumes. A program's image has an empty folder there that every user may write to. */
const programVolume = 'data';
const REMEMBERED_MAX = 10_000;
/** The time for which the base image of the last program is used without another check, ms. */
const BASE_KEPT_MS = 10 * 60_000;

/** Finds, pulls and builds images. The built ones get this instance's label and a tag, so that a prune leaves them. */
export class Images {
  private readonly docker: Dockerode;
  private readonly instance: string;
  private readonly networks: AgentNetworks;
  /** The time of the last failure to answer, in ms since 1970; a registry is not asked again for some minutes. */
  private registryMissedAt = 0;
  private base: { name: string; until: number } | null = null;
  /** The ids of the programs' images that this process has built or found by their content. No label or name can add a foreign image. */
  private readonly programs = new Set<string>();

  constructor(docker: Dockerode, instance: string, networks: AgentNetworks) {
    this.docker = docker;
    this.instance = instance;
    this.networks = networks;
  }

  /** Does as `ContainerRuntime.ensureImage`. Throws the signal's reason if it is aborted. */
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

  /** Returns whether a new volume that is mounted there gets from the image a root that every user may write to. */
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
    // An image that was pulled or built for another account is not available to this caller until its registry serves it to this one too.
    if (found === null || !bearsName(found, reference) || !(await mayUse(pinned(found, reference)))) {
      log(`Pulling ${reference}`);
      await pull(this.docker, reference, log, signal);
      found = await findImage(this.docker, reference);
      if (found === null) throw new RuntimeRefused(`The image ${reference} was pulled, but the engine does not have it.`);
    } else log(`Using ${reference}, which the engine has`);
    // The registry knows the digest too, so that the same image can be pulled again; an image that was never pulled has only its id.
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

  /** Builds a program's image, tagged by its content, so that an unchanged program is not built again. */
  private async program(source: ImageSource & { kind: 'program' }, log: Log, signal: AbortSignal): Promise<ResolvedImage> {
    startCommand({}, source.start);
    const files = await folderEntries(source.directory, 'app/');
    const built = async (base: string) => {
      const entries = [...this.frame(base, source.start), ...files];
      const name = `mooring-${this.instance}:program-${(await hashOf(entries)).slice(0, 16)}`;
      return { entries, name, found: await findImage(this.docker, name) };
    };
    // If it was built recently on the remembered base, that base needs no check.
    const base = this.base !== null && Date.now() < this.base.until ? this.base.name : null;
    let { entries, name, found } = await built(base ?? (await this.findBase(log, signal)));
    if (found === null && base !== null) ({ entries, name, found } = await built(await this.findBase(log, signal)));
    if (found === null) await this.build(entries, 'Dockerfile', name, log, signal);
    else log(`Nothing has changed since ${name} was built`);
    const resolved = resolvedFrom(name, found ?? (await this.found(name)), null);
    if (this.programs.size >= REMEMBERED_MAX) this.programs.clear();
    this.programs.add(resolved.image);
    return resolved;
  }

  /**
   * Returns the entries around a program's files in its build. The folder comes last, so that the engine rebuilds only what a change of the
   * program affects.
   */
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
    this.base = { name, until: Date.now() + BASE_KEPT_MS };
    return name;
  }

  private async found(name: string): Promise<Dockerode.ImageInspectInfo> {
    const found = await findImage(this.docker, name);
    if (found === null) throw new RuntimeRefused(`The image ${name} was built, but the engine does not have it.`);
    return found;
  }

  /** Builds an image and returns its id. The build's own steps run with limits and on the agents' network, where they reach no agent. */
  private async build(entries: TarEntry[], dockerfile: string, name: string | null, log: Log, signal: AbortSignal): Promise<string> {
    await this.networks.ensure('open');
    let id: string | undefined;
    const options = {
      ...(name === null ? {} : { t: name }),
      dockerfile,
      forcerm: true,
      memory: BUILD_MEMORY_BYTES,
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
    if (Date.now() - this.registryMissedAt > REGISTRY_FORGIVEN_MS) {
      try {
        log(`Pulling ${nodeBase}`);
        await pull(this.docker, nodeBase, log, signal, REGISTRY_TIMEOUT_MS);
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

/** Returns whether the image has this name. An engine also finds an image by the beginning of its id, which is no name. */
function bearsName({ RepoTags, RepoDigests }: Dockerode.ImageInspectInfo, reference: string): boolean {
  const wanted = parseImageReference(reference);
  if (wanted === null) return false;
  return [...(RepoTags ?? []), ...(RepoDigests ?? [])].some((name) => {
    const borne = parseImageReference(name);
    if (borne === null) return false;
    // A name with a digest may also have a tag, but the digest decides.
    return namesSameImage(borne, wanted.digest === null ? wanted : { ...wanted, tag: null });
  });
}

function digestOf(image: Dockerode.ImageInspectInfo, reference: string): string | undefined {
  const digests = image.RepoDigests ?? [];
  const repository = reference.replace(/@.*$/, '').replace(/:[^/]*$/, '');
  return digests.find((digest) => digest.startsWith(`${repository}@`)) ?? digests[0];
}

/** Assembles whole lines from pieces. */
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
