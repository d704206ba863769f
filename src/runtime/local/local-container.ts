/**
 * The folder of one container of the local runtime: its spec, its runs, its output, its own files.
 *
 * Owns: the layout of the folder, and the mapping of paths, ports and variables of the container to those of the host. Does not own the
 * processes (`LocalLife`, the supervisor).
 *
 * C1  The state of the container follows from the newest record of a run, the record of its exit, and whether its processes live.
 * C2  The spec holds secrets: its file has mode 0600, and its content is never kept in memory.
 * C3  The agent never inherits the service's own variables.
 */
import { createHash } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { join, posix, sep } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { ContainerSpec, ContainerView } from '../container.ts';
import { variablesAt } from '../project-plan.ts';
import { ContainerGone, RuntimeUnavailable } from '../runtime.errors.ts';
import type { TmpfsMount } from '../tmpfs-mount.ts';
import { isMissing, readJson, writeJson } from './atomic-file.ts';
import type { ImageRecord } from './image-record.ts';
import { liveness, type ProcessMark } from './processes.ts';
import { withOwnPrograms } from './projects/virtual-environment.ts';

/** The record of a run, written by the supervisor at each start; the newest one counts. */
export interface RunRecord {
  run: number;
  supervisor: ProcessMark;
  /** The value is null until the agent was spawned. */
  agent: ProcessMark | null;
  port: number;
  startedAt: string;
}

interface ExitRecord {
  exitCode: number | null;
  endedAt: string;
}

/** The folder of the image's files in a container of the local runtime. */
export const PROGRAM_FOLDER = '/app';

/** One container of the local runtime. See C1 to C3. */
export class LocalContainer {
  constructor(
    readonly folder: string,
    readonly handle: string,
    readonly volume: string,
  ) {}

  get root(): string {
    return join(this.folder, 'root');
  }

  /** C2: Reads the spec, which includes the environment with its secrets. */
  async spec(): Promise<ContainerSpec> {
    const spec = await readJson<ContainerSpec>(join(this.folder, 'spec.json'));
    if (spec === null) throw new ContainerGone(this.handle);
    return spec;
  }

  /** Sets the variables of the next run and of the commands in it. Returns the changed spec. */
  async setEnvironment(environment: Readonly<Record<string, string>>): Promise<ContainerSpec> {
    const spec = await this.spec();
    if (isDeepStrictEqual(spec.environment, environment)) return spec;
    const changed = { ...spec, environment: { ...environment } };
    await writeJson(join(this.folder, 'spec.json'), changed);
    return changed;
  }

  async lastRun(): Promise<RunRecord | null> {
    // A later start removes earlier records, so the one just listed may be gone.
    for (let look = 0; look < 5; look++) {
      const runs = (await this.names()).map((name) => Number(/^run-(\d+)\.json$/.exec(name)?.[1] ?? 0));
      const newest = Math.max(0, ...runs);
      if (newest === 0) return null;
      const record = await readJson<RunRecord>(join(this.folder, `run-${newest}.json`));
      if (record !== null) return record;
    }
    throw new RuntimeUnavailable(new Error(`the records of ${this.handle} change too fast`));
  }

  async view(): Promise<ContainerView> {
    const spec = await this.spec();
    const run = await this.lastRun();
    return {
      handle: this.handle,
      agentId: spec.agentId,
      generation: spec.generation,
      deploymentId: spec.deploymentId,
      oomKilled: false,
      startedAt: run?.startedAt ?? null,
      ...(await this.condition(run)),
    };
  }

  private async condition(run: RunRecord | null): Promise<Pick<ContainerView, 'state' | 'exitCode' | 'finishedAt'>> {
    if (run === null) return { state: 'created', exitCode: null, finishedAt: null };
    const exitFile = join(this.folder, `exit-${run.run}.json`);
    const early = await readJson<ExitRecord>(exitFile);
    if (early !== null) return { state: 'exited', exitCode: early.exitCode, finishedAt: early.endedAt };
    const agent = liveness(run.agent);
    if (agent === 'stopped') return { state: 'frozen', exitCode: null, finishedAt: null };
    if (agent === 'running' || liveness(run.supervisor) !== 'gone') return { state: 'running', exitCode: null, finishedAt: null };
    // The record may have been written after it was read and before the processes were checked.
    const late = await readJson<ExitRecord>(exitFile);
    return { state: 'exited', exitCode: late?.exitCode ?? null, finishedAt: late?.endedAt ?? null };
  }

  async names(): Promise<string[]> {
    try {
      return await readdir(this.folder);
    } catch (error) {
      if (isMissing(error)) throw new ContainerGone(this.handle);
      throw error;
    }
  }

  /** Returns the host's path for a path in the container: a path in its volume, or else in its own root folder. */
  hostPath(spec: ContainerSpec, path: string): string {
    const absolute = posix.resolve('/', path);
    const inVolume = posix.relative(spec.volumePath, absolute);
    if (inVolume === '') return this.volume;
    if (inVolume !== '..' && !inVolume.startsWith('../')) return join(this.volume, inVolume);
    return join(this.root, absolute);
  }

  /** Returns the port on the host's loopback address for a port of the container. */
  async hostPort(spec: ContainerSpec, port: number): Promise<number> {
    return port === spec.port ? ((await this.lastRun())?.port ?? port) : port;
  }

  /** Returns the one of the container's two folders that contains a path returned by `hostPath`. */
  homeOf(hostPath: string): string {
    return hostPath === this.volume || hostPath.startsWith(this.volume + sep) ? this.volume : this.root;
  }

  /** Replaces the container paths among the words of a command by the host's paths. Programs of the host stay as they are. */
  hostCommand(spec: ContainerSpec, argv: string[]): string[] {
    return argv.map((word) => {
      if (!word.startsWith('/')) return word;
      const real = this.hostPath(spec, word);
      return this.homeOf(real) === this.volume || existsSync(real) ? real : word;
    });
  }

  /** Returns the folder on the host of a path that starts at the volume unless it is absolute; null stands for the volume. */
  hostFolder(spec: ContainerSpec, path: string | null): string {
    if (path === null) return this.volume;
    return path.startsWith('/') ? (this.hostCommand(spec, [path])[0] ?? this.volume) : join(this.volume, path);
  }

  /** The folder of the image's files. */
  get program(): string {
    return join(this.root, PROGRAM_FOLDER);
  }

  /** C3: Returns the agent's environment. */
  environment(spec: ContainerSpec, image: ImageRecord, port: number): Record<string, string> {
    const { PATH = '/usr/local/bin:/usr/bin:/bin', LANG = 'C.UTF-8', TMPDIR = '/tmp' } = process.env;
    const path = `${join(process.execPath, '..')}:${PATH}`;
    const { XDG_RUNTIME_DIR: sockets = '' } = spec.environment;
    return {
      PATH: image.builtIn === undefined ? path : withOwnPrograms(this.program, path),
      LANG,
      TMPDIR,
      HOME: this.volume,
      // An agent of the local runtime should not be reachable from the network.
      HOST: '127.0.0.1',
      ...variablesAt(image.environment ?? {}, String(port)),
      ...spec.environment,
      // The folder of sockets is found by its name.
      ...(tmpfsPaths(spec).includes(sockets) ? { XDG_RUNTIME_DIR: this.hostPath(spec, sockets) } : {}),
      ...(image.isDesktop === true ? this.desktopVariables(spec, port) : {}),
      HOSTNAME: `agent-${createHash('sha256').update(spec.agentId).digest('hex').slice(0, 12)}`,
      PORT: String(port),
      MOORING_VOLUME: this.volume,
    };
  }

  /** A desktop's display has the number of the container's port, because all containers share the machine's displays. */
  private desktopVariables(spec: ContainerSpec, port: number): Record<string, string> {
    return { HOME: this.hostPath(spec, spec.environment['HOME'] ?? spec.volumePath), DISPLAY: `:${port}` };
  }
}

/** Returns the paths of a container's in-memory folders. Containers of earlier versions have only the paths in their specs. */
export function tmpfsPaths({ tmpfs }: ContainerSpec): string[] {
  return (tmpfs as (TmpfsMount | string)[]).map((mount) => (typeof mount === 'string' ? mount : mount.path));
}
