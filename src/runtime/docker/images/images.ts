/**
 * Finds, pulls and builds the images of agents and computers.
 *
 * Owns: the choice of base images, and the images that this process built or found by their content. Does not own the removal of images
 * (`OwnImages` knows which are ours), the build of projects (`ProjectBuilds`) or BuildKit (`DockerfileBuilder`).
 *
 * I1  An image that was pulled or built for one account is available to another only after its registry has served it to that account too.
 * I2  Built images have this installation's label and a tag, so that a prune leaves them, and programs are tagged by their content.
 * I3  An image that disappears during the work is reported as lost or gone, and the caller repeats.
 * I4  A registry that failed to respond is not tried again for some minutes.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type Dockerode from 'dockerode';
import { raceAbort } from '../../../kernel/async/race-abort.ts';
import { canonicalRepository, namesSameImage, parseImageReference } from '../../../kernel/network/image-reference.ts';
import { withoutHostPaths } from '../../build-failure.ts';
import type { DockerfileBuilds } from '../../engine-status.ts';
import type { ImageSource, ReferenceSource, ResolvedImage } from '../../image-source.ts';
import { ImageGone, ImageLost, RuntimeRefused } from '../../runtime.errors.ts';
import type { DockerfileBuilder } from '../builder/dockerfile-builder.ts';
import { folderEntries, hashOf, type TarEntry } from '../image-sources/build-context.ts';
import { BuildLayers } from './build-layers.ts';
import { startCommand } from './command.ts';
import { exposedPort } from './exposed-port.ts';
import { ComputerImages } from './computer-images.ts';
import { volumesLine } from '../image-sources/declared-volumes.ts';
import { BUILD_MEMORY_BYTES, EngineBuilds, sendBuild, type BuildRequest } from './engine-builds.ts';
import { OwnImages } from './own-images.ts';
import { ProjectBuilds } from './project-builds.ts';
import { checkTakesConnections } from '../engine/engine.ts';
import { labels, networkName } from '../engine/names.ts';
import type { AgentNetworks } from '../networks/agent-networks.ts';
import type { BuildNetworks } from '../networks/build-networks.ts';
import { runsOurPrograms } from '../engine/local-engine.ts';
import { ensureNodeBase } from '../image-sources/node-base.ts';
import { ensureProjectBase } from '../image-sources/project-base.ts';
import { engineDisk, type PullBounds } from '../image-sources/pull-bounds.ts';
import { checkReference, findImage, findPinned, pull } from '../image-sources/registry.ts';

type Log = (line: string) => void;

/** The images that programs and projects are built on if a registry serves them. */
const usualBases = { node: 'node:22-slim', python: 'python:3.12-slim' };
const machinePrograms = { node: `Node ${process.version}`, python: 'Python' };
const REGISTRY_TIMEOUT_MS = 5_000;
const REGISTRY_RETRY_MS = 10 * 60_000;
/** A user that is neither root nor a user of any image. */
const programUser = '10001:10001';
/** The mount point of agents' volumes. A program's image has an empty folder there that every user may write to. */
const programVolume = 'data';
const REMEMBERED_MAX = 10_000;
/** The time for which the base image of the last program is used without another check, in ms. */
const BASE_KEPT_MS = 10 * 60_000;

/** An image that a Dockerfile names, as it writes it and as the engine has it. */
interface FetchedBase {
  reference: string;
  image: Dockerode.ImageInspectInfo;
}

/** The engine's words for a layer that was removed between two steps of a build. */
const lostLayer = /no such image: sha256:|unknown parent image id sha256:|failed to get digest sha256:|layer does not exist/i;

export interface ImagesOptions {
  docker: Dockerode;
  instance: string;
  networks: AgentNetworks;
  buildNetworks: BuildNetworks;
  /** The builder of accounts' Dockerfiles; null stands for the engine's own. */
  builder: DockerfileBuilder | null;
  /** The size that an image may have as its registry sends it, in bytes; by default there is no bound. */
  imageMaxBytes?: number | undefined;
  /** The image of computers, or the path of a tar of it; by default it is made of our Dockerfile. */
  computerImage?: string | null;
  /** Returns an image with the helper program; null if there is none. */
  helperImage(): Promise<string | null>;
}

/** The images of one engine. See I1 to I4. */
export class Images {
  private readonly docker: Dockerode;
  private readonly instance: string;
  private readonly networks: AgentNetworks;
  /** The images of this installation among those of the engine. */
  readonly own: OwnImages;
  /** The time of the last failure to answer, in ms since 1970; a registry is not asked again for some minutes. */
  private registryMissedAt = 0;
  private base: { name: string; until: number } | null = null;
  /**
   * The ids of the programs' and projects' images that this process has built or found by their content. No label or name can add a foreign
   * image.
   */
  private readonly programs = new Set<string>();
  private readonly layers: BuildLayers;
  private readonly projects: ProjectBuilds;
  private readonly computers: ComputerImages;
  private readonly builder: DockerfileBuilder | null;
  private readonly bounds: PullBounds;
  /** The builds of accounts' Dockerfiles by the engine's own builder. */
  readonly engineBuilds: EngineBuilds;

  constructor(options: ImagesOptions) {
    const { docker, instance, networks } = options;
    this.docker = docker;
    this.layers = new BuildLayers(docker);
    this.instance = instance;
    this.networks = networks;
    this.builder = options.builder;
    this.bounds = { maxBytes: options.imageMaxBytes ?? Infinity, disk: engineDisk(docker) };
    this.engineBuilds = new EngineBuilds({ ...options, networks: options.buildNetworks });
    this.computers = new ComputerImages(docker, options.computerImage ?? null);
    this.own = new OwnImages(docker, instance, () => this.computers.outdated());
    this.projects = new ProjectBuilds({
      docker,
      instance,
      memoryBytes: BUILD_MEMORY_BYTES,
      network: networkName(instance, networks.kindForBuilds),
      base: (language, log, signal) => this.baseOf(language, () => ensureProjectBase(docker, language, signal), log, signal),
      markBase: async (name) => {
        const found = await findImage(docker, name);
        if (found !== null) await this.own.markBase(found);
      },
      build: (entries, name, log, signal) => this.buildOurs({ entries, dockerfile: 'Dockerfile', name }, log, signal),
    });
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
        case 'project':
          return await this.project(source, log, signal);
        case 'computer':
          return await this.computers.ensure(log, signal);
        case 'earlier':
          return await this.earlier(source, log);
      }
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (error instanceof RuntimeRefused) await checkTakesConnections(this.docker);
      throw lostWhileBuilding(error) ? new ImageLost('that was being built', { cause: error }) : withoutHostDetails(error);
    }
  }

  /** Returns whether a new volume that is mounted there gets from the image a root that every user may write to. */
  opensVolume(imageId: string, volumePath: string): boolean {
    return volumePath === `/${programVolume}` && this.programs.has(imageId);
  }

  /** Returns the state of the builds of accounts' Dockerfiles. */
  async dockerfileBuilds(): Promise<DockerfileBuilds> {
    return this.builder === null ? { lack: null, weakness: await this.engineBuilds.weakness() } : this.builder.state;
  }

  private async reference(source: ReferenceSource, log: Log, signal: AbortSignal): Promise<ResolvedImage> {
    const { reference, start = null } = source;
    const found = await this.fetchReference(source, log, signal);
    logVolumes(found, log);
    const command = startCommand(found.Config, start);
    return { image: pinned(found, reference), name: reference, command, exposedPort: exposedPort(found.Config) };
  }

  /** Returns the image of that name if the caller may use it as the engine has it, or else after a pull. */
  private async fetchReference(
    { reference, mayUse, beforePull, credential }: ReferenceSource,
    log: Log,
    signal: AbortSignal,
  ): Promise<Dockerode.ImageInspectInfo> {
    checkReference(reference);
    const found = await findImage(this.docker, reference);
    // I1
    if (found === null || !hasName(found, reference) || !(await mayUse(pinned(found, reference)))) {
      const before = await this.own.beforePull();
      const given = (await credential?.()) ?? null;
      await beforePull?.();
      log(`Pulling ${reference}`);
      await pull(this.docker, reference, log, signal, { credential: given, bounds: this.bounds });
      await this.own.markPulled(await this.found(reference), reference, before);
      return this.found(reference);
    }
    log(`Using ${reference}, which the engine has`);
    return found;
  }

  /** Makes the images available that a Dockerfile names. Their triggers would be instructions of the build that nobody has checked. */
  private async fetchBases(bases: readonly ReferenceSource[], log: Log, signal: AbortSignal): Promise<FetchedBase[]> {
    const fetched: FetchedBase[] = [];
    for (const base of bases) {
      const found = await this.fetchReference(base, log, signal);
      await this.own.markBase(found);
      const triggers = (found.Config as { OnBuild?: string[] | null }).OnBuild ?? [];
      if (triggers.length > 0)
        throw new RuntimeRefused(`The image ${base.reference} has triggers (ONBUILD), and nothing is built from such images.`);
      fetched.push({ reference: base.reference, image: found });
    }
    return fetched;
  }

  private async dockerfile(source: ImageSource & { kind: 'dockerfile' }, log: Log, signal: AbortSignal): Promise<ResolvedImage> {
    const bases = await this.fetchBases(source.bases ?? [], log, signal);
    const given = this.own.nameForBuild();
    const entries = await folderEntries(source.directory, '');
    const { accountId, dockerfile, args = {} } = source;
    if (this.builder !== null) await this.builder.build({ accountId, entries, dockerfile, bases, args, name: given }, log, signal);
    else {
      if (existsSync(join(source.directory, '.dockerignore'))) log('.dockerignore is not looked at: the whole folder is sent to the build');
      const request = { entries, dockerfile, name: given, args };
      await this.layers.follow(signal, (note) => this.engineBuilds.build(request, passToBoth(note, log), signal));
    }
    const found = await this.found(given);
    logVolumes(found, log);
    const name = await this.own.keepFirstName(found, given);
    return { ...resolvedFrom(name, found, source.start), exposedPort: exposedPort(found.Config) };
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
    if (found === null) await this.buildOurs({ entries, dockerfile: 'Dockerfile', name }, log, signal);
    else log(`Nothing has changed since ${name} was built`);
    const resolved = resolvedFrom(name, found ?? (await this.found(name)), null);
    this.rememberProgram(resolved);
    return resolved;
  }

  private rememberProgram({ image }: ResolvedImage): void {
    if (this.programs.size >= REMEMBERED_MAX) this.programs.clear();
    this.programs.add(image);
  }

  private async project(source: ImageSource & { kind: 'project' }, log: Log, signal: AbortSignal): Promise<ResolvedImage> {
    const name = await this.projects.ensure(source, log, signal);
    const resolved = resolvedFrom(name, await this.found(name), null);
    this.rememberProgram(resolved);
    return resolved;
  }

  private async earlier({ earlier }: ImageSource & { kind: 'earlier' }, log: Log): Promise<ResolvedImage> {
    const found = await findPinned(this.docker, earlier.image);
    if (found === null) throw new ImageGone(earlier.image, earlier.name);
    log(`Using ${earlier.name} as it was deployed before (${earlier.image})`);
    logVolumes(found, log);
    return earlier;
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
    const name = await this.baseOf('node', () => ensureNodeBase(this.docker, signal), log, signal);
    this.base = { name, until: Date.now() + BASE_KEPT_MS };
    return name;
  }

  private async found(name: string): Promise<Dockerode.ImageInspectInfo> {
    const found = await findImage(this.docker, name);
    // Nobody has claimed it yet, so that a removal of what no agent needs can come first.
    if (found === null) throw new ImageLost(name);
    return found;
  }

  /**
   * Builds a Dockerfile of ours, which runs no program, and returns the image's id. If the signal aborts, the layers that were made so far
   * are removed.
   */
  private async buildOurs(request: BuildRequest, log: Log, signal: AbortSignal): Promise<string> {
    const network = this.networks.kindForBuilds;
    await raceAbort(this.networks.ensure(network), signal);
    const place = { networkmode: networkName(this.instance, network) };
    return this.layers.follow(signal, (note) => sendBuild(this.docker, request, place, passToBoth(note, log), signal));
  }

  /** Returns the usual image of the language, or else what `ownBase` makes of this machine's programs. */
  private async baseOf(language: 'node' | 'python', ownBase: () => Promise<string>, log: Log, signal: AbortSignal): Promise<string> {
    const base = usualBases[language];
    if ((await findImage(this.docker, base)) !== null) return base;
    let missed = 'no registry answered a short while ago';
    if (Date.now() - this.registryMissedAt > REGISTRY_RETRY_MS) {
      try {
        log(`Pulling ${base}`);
        await pull(this.docker, base, log, signal, { answerMs: REGISTRY_TIMEOUT_MS, bounds: this.bounds });
        return base;
      } catch (error) {
        if (signal.aborted || !(error instanceof RuntimeRefused)) throw error;
        missed = error.message;
        this.registryMissedAt = Date.now();
      }
    }
    if (!(await runsOurPrograms(this.docker))) throw new RuntimeRefused(`The image ${base} can't be pulled: ${missed}`);
    log(`No registry was reached for ${base} (${missed})`);
    log(`Using this machine's own ${machinePrograms[language]} as the base image instead`);
    return ownBase();
  }
}

/** Passes each line on to both. */
const passToBoth = (note: Log, log: Log): Log => {
  return (line) => {
    note(line);
    log(line);
  };
};

/**
 * Returns whether a build failed because a layer of it is gone: a build of another replica that was canceled removes what it made, and the
 * engine may have lent that to this one.
 */
export function lostWhileBuilding(error: unknown): boolean {
  return error instanceof RuntimeRefused && lostLayer.test(error.message);
}

/** Returns the error without what it says of folders of the engine's machine. */
function withoutHostDetails(error: unknown): unknown {
  if (!(error instanceof RuntimeRefused)) return error;
  const message = withoutHostPaths(error.message);
  return message === error.message ? error : new RuntimeRefused(message, { cause: error.cause });
}

function logVolumes(image: Dockerode.ImageInspectInfo, log: Log): void {
  const line = volumesLine(image, `/${programVolume}`);
  if (line !== null) log(line);
}

function resolvedFrom(name: string, { Id, Config }: Dockerode.ImageInspectInfo, start: string[] | null): ResolvedImage {
  return { image: Id, name, command: startCommand(Config, start) };
}

/**
 * Returns the image's pin. The registry knows the digest too, so that the same image can be pulled again under the name before it. An image
 * that was never pulled has only its id, unless the engine's ids are digests.
 */
function pinned({ Id, RepoDigests }: Dockerode.ImageInspectInfo, reference: string): string {
  const digests = RepoDigests ?? [];
  const wanted = repositoryOf(reference);
  return digests.find((digest) => repositoryOf(digest) === wanted) ?? digests[0] ?? Id;
}

function repositoryOf(name: string): string | null {
  const parsed = parseImageReference(name);
  return parsed === null ? null : canonicalRepository(parsed);
}

/** Returns whether the image has this name. An engine also finds an image by the beginning of its id, which is no name. */
function hasName({ RepoTags, RepoDigests }: Dockerode.ImageInspectInfo, reference: string): boolean {
  const wanted = parseImageReference(reference);
  if (wanted === null) return false;
  return [...(RepoTags ?? []), ...(RepoDigests ?? [])].some((name) => {
    const borne = parseImageReference(name);
    if (borne === null) return false;
    // A name with a digest may also have a tag, but the digest decides.
    return namesSameImage(borne, wanted.digest === null ? wanted : { ...wanted, tag: null });
  });
}
