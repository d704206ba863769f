import { randomBytes } from 'node:crypto';
import type Dockerode from 'dockerode';
import { raceAbort } from '../../../kernel/async/race-abort.ts';
import { FailureReason } from '../../build-failure.ts';
import { OutputLines } from '../../output-lines.ts';
import { RuntimeRefused, RuntimeUnavailable } from '../../runtime.errors.ts';
import { tarOf, type TarEntry } from '../image-sources/build-context.ts';
import { follow } from '../image-sources/registry.ts';
import { call, portErrors } from '../engine/engine.ts';
import { buildName } from '../engine/names.ts';
import type { BuildNetworks } from '../networks/build-networks.ts';
import { BuildHolder, type CgroupLimits } from './build-holder.ts';

export const BUILD_MEMORY_BYTES = 4 * 1024 ** 3;
const CPU_PERIOD_US = 100_000;

export interface BuildRequest {
  entries: TarEntry[];
  /** The path of the Dockerfile among the entries. */
  dockerfile: string;
  /** The name of the image; null stands for none. */
  name: string | null;
  /** The values of the Dockerfile's arguments. */
  args?: Readonly<Record<string, string>>;
}

/** The engine's options for where and how a build's steps run. */
type Place = Dockerode.ImageBuildOptions & { cgroupparent?: string };

type Log = (line: string) => void;

/** Builds an image with the engine's own builder, and returns its id. */
export async function sendBuild(docker: Dockerode, request: BuildRequest, place: Place, log: Log, signal: AbortSignal): Promise<string> {
  let id: string | undefined;
  const options = {
    ...(request.name === null ? {} : { t: request.name }),
    dockerfile: request.dockerfile,
    forcerm: true,
    memory: BUILD_MEMORY_BYTES,
    ...(request.args === undefined ? {} : { buildargs: { ...request.args } }),
    ...place,
    abortSignal: signal,
  };
  const tar = tarOf(request.entries);
  let reason = new FailureReason();
  const lines = new OutputLines((line) => {
    if (line === '') return;
    if (/^Step \d/.test(line)) reason = new FailureReason();
    else if (!/^ ---> |^Removing intermediate container /.test(line)) reason.push(line);
    log(line);
  });
  try {
    const stream = await portErrors(null, () => docker.buildImage(tar, options));
    await portErrors(null, () =>
      follow(stream, (step) => {
        id = step.aux?.ID ?? id;
        const text = step.stream ?? (step.status === undefined || step.progressDetail?.total !== undefined ? '' : `${step.status}\n`);
        lines.push(Buffer.from(text));
      }),
    );
  } catch (error) {
    lines.end();
    throw withReason(error, reason.text);
  } finally {
    lines.end();
    tar.destroy();
  }
  if (id === undefined) throw new RuntimeRefused('The build ended without an image.');
  return id;
}

/** Returns the engine's refusal of a command with what the command said, which the engine does not repeat. */
function withReason(error: unknown, reason: string): unknown {
  if (!(error instanceof RuntimeRefused) || !error.message.startsWith('The command ') || reason === '') return error;
  return new RuntimeRefused(`${error.message}: ${reason}`, { cause: error.cause });
}

export interface EngineBuildsOptions {
  docker: Dockerode;
  instance: string;
  networks: BuildNetworks;
  /** Returns an image with the helper program; null if there is none. */
  helperImage(): Promise<string | null>;
}

/**
 * Builds strangers' Dockerfiles with the engine's own builder: each on its own network, with half of the processors, and, where the engine
 * supports it, in a cgroup that limits its processes. The steps have the engine's default privileges, so builds are isolated less than
 * agents.
 */
export class EngineBuilds {
  private engine: Promise<CgroupLimits> | null = null;
  private removing: Promise<void> | null = null;
  private isRequestedAgain = false;

  constructor(private readonly options: EngineBuildsOptions) {}

  /** Returns the sentence that says how builds are not isolated. The limits of an engine that is unavailable are unknown. */
  async weakness(): Promise<string> {
    const unbounded = await this.limits().then(
      (limits) => limits.unbounded,
      () => null,
    );
    const sentence =
      "builds are not isolated from each other and from the host as agents are: Dockerfiles are built by the engine's own builder (MOORING_BUILDER=engine)";
    return unbounded === null ? sentence : `${sentence}; the processes of a build are not bounded, because ${unbounded}`;
  }

  /** Builds the image and returns its id. */
  async build(request: BuildRequest, log: Log, signal: AbortSignal): Promise<string> {
    const { docker, instance, networks } = this.options;
    void this.removeLeftOvers();
    const [image, limits] = await raceAbort(Promise.all([this.options.helperImage(), this.limits()]), signal);
    if (image === null)
      throw new RuntimeRefused(
        'The engine builds no Dockerfile without the helper program: install busybox-static, or set MOORING_HELPER_IMAGE.',
      );
    const name = buildName(instance, randomBytes(6).toString('hex'));
    const holder = await BuildHolder.start(docker, { instance, name, image, limits });
    try {
      await networks.create(name);
      const place: Place = {
        networkmode: name,
        cpuperiod: CPU_PERIOD_US,
        cpuquota: Math.round(limits.cpus * CPU_PERIOD_US),
        ...(holder.cgroup === null ? {} : { cgroupparent: holder.cgroup }),
      };
      return await sendBuild(docker, request, place, log, signal);
    } finally {
      // The network is removed when the last step has left it, so that the cgroup is empty by then.
      await networks.remove(name).catch(unlessRuntime);
      await holder.end().catch(unlessRuntime);
    }
  }

  /** Removes what builds of services that are gone have left. Never throws: the next build or the next start tries again. */
  removeLeftOvers(): Promise<void> {
    this.isRequestedAgain = true;
    this.removing ??= this.removeAll().finally(() => (this.removing = null));
    return this.removing;
  }

  private async removeAll(): Promise<void> {
    // A build may have ended after the networks and containers were listed.
    while (this.isRequestedAgain) {
      this.isRequestedAgain = false;
      await this.options.networks.removeLeftOvers().catch(() => undefined);
    }
  }

  private limits(): Promise<CgroupLimits> {
    this.engine ??= readLimits(this.options.docker).catch((error: unknown) => {
      this.engine = null;
      throw error;
    });
    return this.engine;
  }
}

interface EngineInfo {
  CgroupDriver: string;
  /** Missing on engines before 20.10. */
  CgroupVersion?: string;
  NCPU: number;
}

async function readLimits(docker: Dockerode): Promise<CgroupLimits> {
  const { CgroupDriver, CgroupVersion, NCPU } = (await call(null, () => docker.info())) as EngineInfo;
  const version = CgroupVersion ?? '1';
  const unbounded =
    CgroupDriver === 'cgroupfs' && version === '1'
      ? null
      : `the engine keeps its cgroups (version ${version}) by ${CgroupDriver}, and not version 1 by cgroupfs`;
  return { unbounded, cpus: Math.max(1, NCPU / 2) };
}

/** Ignores a failed removal: the next build or the next start removes what is left. */
function unlessRuntime(error: unknown): void {
  if (!(error instanceof RuntimeRefused || error instanceof RuntimeUnavailable)) throw error;
}
