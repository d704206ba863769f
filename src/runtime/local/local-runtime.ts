/**
 * Runs agents as child processes: the port `ContainerRuntime` for laptops without an engine, and for fast tests.
 *
 * Owns: the folders below `<dataDir>/local`: one for each container and volume. Does not own the agents' processes: a supervisor outlives
 * the service and records output, states and exit codes on disk.
 *
 * L1  Nothing is isolated: memory, cpu, pids, user, read-only root and shared memory are not enforced, and folders in memory are on disk.
 * L2  Every call can be repeated, and after a kill of the service the folders tell the state of each container.
 */
import { randomUUID } from 'node:crypto';
import { access, mkdir, readdir, rm } from 'node:fs/promises';
import { basename, join, posix, resolve } from 'node:path';
import type { Duplex } from 'node:stream';
import {
  ContainerRuntime,
  type DialTarget,
  type ExecRequest,
  type ExecResult,
  type LogCursor,
  type LogLine,
  type RuntimeEvent,
  type Terminal,
  type TerminalRequest,
} from '../runtime.ts';
import type { ImageSource, ResolvedImage } from '../image-source.ts';
import type { ContainerHandle, ContainerName, ContainerSpec, ContainerView, RuntimeList, Transition } from '../container.ts';
import { ContainerGone, RuntimeRefused, RuntimeUnavailable } from '../runtime.errors.ts';
import type { EngineStatus } from '../engine-status.ts';
import type { RuntimeCapabilities } from '../runtime-capabilities.ts';
import { filePath } from '../file-paths.ts';
import type { MeasureBounds, VolumeSize } from '../files.ts';
import { unpack } from './archive.ts';
import { exists, removeFolder } from './atomic-file.ts';
import { Changes } from './changes.ts';
import { ensureComputerImage } from './computer-image.ts';
import { CommandRecords } from './command-records.ts';
import { expectState } from './container-states.ts';
import { LocalChannels } from './local-channels.ts';
import { LocalCommands } from './local-commands.ts';
import { LocalContainer } from './local-container.ts';
import { LocalDials } from './local-dials.ts';
import { LocalLife } from './local-life.ts';
import { readImageRecord, type ImageRecord } from './image-record.ts';
import { LocalFiles } from './files/local-files.ts';
import type { ContainerRoots } from './files/real-path.ts';
import { LocalImages } from './local-images.ts';
import { makeContainer } from './make-container.ts';
import { openLocalTerminal } from './local-terminal.ts';
import { runOneShot } from './one-shot.ts';
import { lastOutputLines, outputLines } from './output-log.ts';
import { Ports } from './ports.ts';
import { volumeSize } from './folder-size.ts';
import { ensureProgramImage } from './program-image.ts';
import { BuildFolders } from './projects/build-folders.ts';
import { PackageStore } from './projects/package-store.ts';
import { ensureProjectImage, type ProjectPlaces } from './projects/project-image.ts';
import { startCommandAt } from './start-command.ts';
import { startSupervisor } from './start-supervisor.ts';
import { statesSince, trimStates } from './state-log.ts';
import { makeTmpfsFolders } from './tmpfs-folders.ts';

export interface LocalRuntimeOptions {
  instance: string;
  dataDir: string;
  /** The largest size of one project with its installed packages, in bytes; the default is 8 GiB. */
  projectBytesMax?: number;
}

const PROJECT_BYTES_MAX = 8 * 1024 ** 3;
const HANDLE = /^([0-9A-Za-z][0-9A-Za-z-]{0,99})-g(\d{1,9})$/;

/** The local runtime. See L1, L2. A process that leaves the agent's session, and whose parents have ended, is never ended. */
export class LocalRuntime extends ContainerRuntime {
  readonly name = 'local';
  readonly files = new LocalFiles((handle) => this.homesOf(handle));
  readonly images: LocalImages;
  private readonly channels = new LocalChannels((handle) => {
    const container = this.at(handle);
    return { container, environment: () => this.environmentOf(container) };
  });
  readonly commands = new LocalCommands(this.channels, (handle) => this.at(handle));
  private readonly dials = new LocalDials();
  private readonly ports = new Ports();
  private readonly life: LocalLife;

  private constructor(
    private readonly home: string,
    private readonly projects: ProjectPlaces,
    private readonly changes: Changes,
  ) {
    super();
    this.life = new LocalLife(changes);
    this.images = new LocalImages(projects.images, projects.packages);
  }

  /** Creates the folders below `<dataDir>/local` and cleans up after a killed service. Agents keep running. */
  static async open({ instance, dataDir, projectBytesMax = PROJECT_BYTES_MAX }: LocalRuntimeOptions): Promise<LocalRuntime> {
    const home = join(dataDir, 'local', instance);
    const shared = (name: string) => join(dataDir, 'local', name);
    const projects = {
      images: shared('images'),
      builds: new BuildFolders(shared('builds')),
      packages: new PackageStore(shared('packages')),
      bytesMax: projectBytesMax,
    };
    for (const folder of [projects.images, join(home, 'containers'), join(home, 'volumes')])
      await mkdir(folder, { recursive: true, mode: 0o700 });
    const runtime = new LocalRuntime(home, projects, new Changes(join(home, 'changes')));
    await runtime.clearLeftovers();
    return runtime;
  }

  async capabilities(): Promise<RuntimeCapabilities> {
    return { freeze: true, isolation: false, images: false };
  }

  async ping(): Promise<void> {
    await access(this.home).catch((error: unknown) => {
      throw new RuntimeUnavailable(error);
    });
  }

  async available(): Promise<boolean> {
    return true;
  }

  async ensureImage(source: ImageSource, log: (line: string) => void, signal: AbortSignal): Promise<ResolvedImage> {
    switch (source.kind) {
      case 'earlier':
        return this.images.earlier(source.earlier, log);
      case 'program':
        return ensureProgramImage(this.projects.images, source, log, signal);
      case 'project':
        return ensureProjectImage(this.projects, source, log, signal);
      case 'computer':
        return ensureComputerImage(this.projects.images, log, signal);
      default:
        throw new RuntimeRefused(
          'an image needs a container engine: install Docker (Debian: docker.io) and start with MOORING_RUNTIME=docker',
        );
    }
  }

  async ensureVolume(agentId: string): Promise<void> {
    await mkdir(this.volume(agentId), { recursive: true, mode: 0o700 });
  }

  async removeVolume(agentId: string): Promise<void> {
    await removeFolder(this.volume(agentId));
    await rm(this.changes.file(agentId), { force: true });
  }

  async volumeSizes(agentIds: readonly string[], { withinMs }: MeasureBounds): Promise<ReadonlyMap<string, VolumeSize>> {
    const end = performance.now() + withinMs;
    const sizes = new Map<string, VolumeSize>();
    for (const agentId of agentIds) {
      const size = await volumeSize(this.volume(agentId), end - performance.now());
      if (size !== null) sizes.set(agentId, size);
    }
    return sizes;
  }

  async create(spec: ContainerSpec): Promise<ContainerView> {
    const handle = `${spec.agentId}-g${spec.generation}`;
    const container = this.at(handle);
    if (typeof spec.egress === 'object') throw new RuntimeRefused('An agent is held to a list of names only on a Docker Engine.');
    if (!(await exists(container.folder))) {
      await this.ensureVolume(spec.agentId);
      await makeContainer(join(this.projects.images, basename(spec.image)), container, spec);
      await this.changes.touch(spec.agentId);
    }
    return container.view();
  }

  /** Stores the variables with the container's spec, for the commands that run in it. */
  async start(handle: ContainerHandle, environment: Readonly<Record<string, string>>): Promise<boolean> {
    const container = this.at(handle);
    const { state } = await container.view();
    if (state === 'running' || state === 'frozen') return false;
    await new CommandRecords(container.folder).killAll();
    const spec = await container.setEnvironment(environment);
    const run = ((await container.lastRun())?.run ?? 0) + 1;
    const port = await this.ports.choose(handle);
    const image = await this.imageOf(container, spec);
    await trimStates(container.folder);
    await makeTmpfsFolders(container, spec);
    await startSupervisor(container.folder, run, this.changes.file(spec.agentId), {
      command: container.hostCommand(spec, startCommandAt(port, spec, image)),
      environment: container.environment(spec, image, port),
      cwd: container.program,
      port,
    });
    return true;
  }

  async stop(handle: ContainerHandle, graceSeconds: number): Promise<void> {
    await this.life.stop(this.at(handle), graceSeconds);
  }

  async freeze(handle: ContainerHandle): Promise<void> {
    await this.life.freeze(this.at(handle));
  }

  async thaw(handle: ContainerHandle): Promise<void> {
    await this.life.thaw(this.at(handle));
  }

  async transitions(handle: ContainerHandle, since: string): Promise<Transition[]> {
    return statesSince(this.at(handle).folder, since);
  }

  async remove(handle: ContainerHandle): Promise<void> {
    const container = this.at(handle);
    if (!(await exists(container.folder))) return;
    this.channels.discard(handle);
    const { agentId } = await container.view();
    await this.life.end(container);
    await removeFolder(container.folder);
    this.ports.release(handle);
    await this.changes.touch(agentId);
  }

  async inspect(agentId: string): Promise<{ containers: ContainerView[]; volume: boolean }> {
    const handles = await this.handles((id) => id === agentId);
    return { containers: await this.views(handles), volume: await exists(this.volume(agentId)) };
  }

  async list(): Promise<RuntimeList> {
    const volumes = (await readdir(join(this.home, 'volumes'))).filter((name) => !name.startsWith('.'));
    return { containers: await this.views(await this.handles(() => true)), volumes };
  }

  async exec(handle: ContainerHandle, request: ExecRequest): Promise<ExecResult> {
    const container = this.at(handle);
    await expectState(container, ['running']);
    const spec = await container.spec();
    const argv = container.hostCommand(spec, request.argv);
    const cwd = container.hostFolder(spec, request.cwd ?? null);
    if (request.session !== undefined)
      return this.channels.exec(handle, { ...request, argv, cwd: request.cwd === undefined ? undefined : cwd });
    const records = new CommandRecords(container.folder);
    const record = randomUUID();
    try {
      const own = await records.announce(record);
      return await runOneShot({
        argv,
        cwd,
        environment: { ...(await this.environmentOf(container)), ...request.environment, ...own },
        request,
        onStart: (mark) => records.add(record, mark),
      });
    } finally {
      await records.remove(record);
    }
  }

  async terminal(handle: ContainerHandle, request: TerminalRequest): Promise<Terminal> {
    const container = this.at(handle);
    await expectState(container, ['running']);
    const records = new CommandRecords(container.folder);
    const record = randomUUID();
    const environment = await this.environmentOf(container);
    const own = await records.announce(record);
    return openLocalTerminal({
      cwd: container.volume,
      environment: { ...environment, ...own },
      request,
      onStart: (mark) => records.add(record, mark),
      onEnd: () => records.remove(record),
    });
  }

  async dial(handle: ContainerHandle, to: DialTarget, signal: AbortSignal): Promise<Duplex> {
    return this.dials.dial(this.at(handle), to, signal);
  }

  async copyIn(handle: ContainerHandle, path: string, tar: NodeJS.ReadableStream): Promise<void> {
    const container = this.at(handle);
    await expectState(container, ['created']);
    const spec = await container.spec();
    await unpack(tar, (name) => {
      const target = container.hostPath(spec, posix.join(path, name));
      return { target, home: container.homeOf(target) };
    });
  }

  async *logs(handle: ContainerHandle, after: LogCursor | null, signal: AbortSignal): AsyncIterable<LogLine> {
    const container = this.at(handle);
    const { generation } = await container.view();
    yield* outputLines(container, generation, after, signal);
  }

  lastLines(handle: ContainerHandle, count: number): Promise<string[]> {
    return lastOutputLines(this.at(handle), count);
  }

  events(signal: AbortSignal): AsyncIterable<RuntimeEvent> {
    return this.changes.watch(signal);
  }

  async address({ agentId, generation }: ContainerName, port: number): Promise<{ host: string; port: number }> {
    const container = this.at(`${agentId}-g${generation}`);
    await expectState(container, ['running']);
    return { host: '127.0.0.1', port: await container.hostPort(await container.spec(), port) };
  }

  async dockerfileBuilds(): Promise<null> {
    return null;
  }

  async egress(): Promise<null> {
    return null;
  }

  async agentPorts(): Promise<null> {
    return null;
  }

  async engineStatus(): Promise<EngineStatus> {
    return { lack: null, warnings: [] };
  }

  /** Agents keep running, as they do with an engine. */
  async close(): Promise<void> {
    this.channels.close();
    this.dials.close();
  }

  private at(handle: ContainerHandle): LocalContainer {
    const agentId = HANDLE.exec(handle)?.[1];
    if (agentId === undefined) throw new ContainerGone(handle);
    return new LocalContainer(join(this.home, 'containers', handle), handle, this.volume(agentId));
  }

  /** Returns the variables of a running container's commands. */
  private async environmentOf(container: LocalContainer): Promise<Record<string, string>> {
    const spec = await container.spec();
    const port = (await container.lastRun())?.port ?? spec.port;
    return container.environment(spec, await this.imageOf(container, spec), port);
  }

  /** Reads the record of the container's image. Containers of earlier versions have no copy of it. */
  private async imageOf(container: LocalContainer, { image }: ContainerSpec): Promise<ImageRecord> {
    const found = (await readImageRecord(container.folder)) ?? (await readImageRecord(join(this.projects.images, basename(image))));
    if (found === null) throw new RuntimeRefused('the program of this container is gone');
    return found;
  }

  private async homesOf(handle: ContainerHandle): Promise<ContainerRoots> {
    const container = this.at(handle);
    await expectState(container, ['running']);
    const { volumePath } = await container.spec();
    return { mount: filePath(volumePath).parts, volume: resolve(container.volume), root: resolve(container.root) };
  }

  private volume(agentId: string): string {
    if (!HANDLE.test(`${agentId}-g1`)) throw new RuntimeRefused('an agent id has letters, digits and hyphens only');
    return join(this.home, 'volumes', agentId);
  }

  private async handles(wanted: (agentId: string) => boolean): Promise<ContainerHandle[]> {
    const names = await readdir(join(this.home, 'containers'));
    return names.filter((name) => {
      const agentId = HANDLE.exec(name)?.[1];
      return agentId !== undefined && wanted(agentId);
    });
  }

  private async views(handles: ContainerHandle[]): Promise<ContainerView[]> {
    const views: ContainerView[] = [];
    for (const handle of handles) {
      try {
        views.push(await this.at(handle).view());
      } catch (error) {
        if (!(error instanceof ContainerGone)) throw error;
      }
    }
    return views;
  }

  private async clearLeftovers(): Promise<void> {
    await this.projects.builds.removeOrphans();
    for (const folder of [join(this.home, 'containers'), join(this.home, 'volumes')])
      for (const name of await readdir(folder))
        if (name.startsWith('.trash-')) await rm(join(folder, name), { recursive: true, force: true });
    for (const handle of await this.handles(() => true)) await new CommandRecords(this.at(handle).folder).killOrphans();
  }
}
