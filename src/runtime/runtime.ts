import type { Duplex } from 'node:stream';

import type { AgentAddress } from '../kernel/network/agent-address.ts';
import type { AllowList } from '../kernel/network/allow-list.ts';
import type { AgentCommands } from './agent-commands.ts';
import type { AgentPorts } from './agent-ports.ts';
import type { DockerfileBuilds, EgressStatus, EngineStatus } from './engine-status.ts';
import type { AgentFiles, MeasureBounds, VolumeSize } from './files.ts';
import type { ImageStore } from './image-store.ts';
import type { OutputBounds, ReadPace } from './output-bounds.ts';
import type { BuildSettings, ProjectPlan } from './project-plan.ts';
import type { RegistryCredential } from './registry-credential.ts';
import type { RuntimeCapabilities } from './runtime-capabilities.ts';
import type { TmpfsMount } from './tmpfs-mount.ts';

/** An opaque handle, which is no longer valid after a stop and a wake. */
export type ContainerHandle = string;

export type ContainerState = 'created' | 'running' | 'frozen' | 'exited';

/** The key of a container if its handle is unknown: an agent has at most one container of each generation. */
export interface ContainerName {
  agentId: string;
  generation: number;
}

/** The immutable properties of a container, which are its labels. */
export interface ContainerIdentity extends ContainerName {
  deploymentId: string;
}

/** A container as a bulk list of the engine shows it. */
export interface ListedContainer extends ContainerIdentity {
  handle: ContainerHandle;
  state: ContainerState;
  /** True if an earlier release made the container, under another name: it serves nobody, and is replaced. */
  outdated?: true;
}

export interface RuntimeList {
  containers: readonly ListedContainer[];
  /** The agents whose volumes exist. */
  volumes: readonly string[];
}

export interface ContainerView extends ListedContainer {
  /** The exit code of the last run; null if it has not ended, or the engine does not know. */
  exitCode: number | null;
  /** True if its program may not have begun in the last run, such as when the service that started it was killed in between. */
  notBegun?: true;
  oomKilled: boolean;
  /** The time in ISO 8601; null if it never ran. */
  startedAt: string | null;
  /** The time at which the last run ended; null if it has not, or that is not known. */
  finishedAt: string | null;
}

/** A change of a container to a state, at a time in ISO 8601. */
export interface Transition {
  state: ContainerState;
  at: string;
}

export interface ContainerSpec extends ContainerIdentity {
  /** The pinned image that `ensureImage` returned. */
  image: string;
  /** The command in exec form; null stands for the image's own. */
  command: string[] | null;
  environment: Record<string, string>;
  /** The port on which the agent listens. */
  port: number;
  /** The mount point of the agent's volume. */
  volumePath: string;
  /** The user; null stands for the image's own, and a group alone for it with a user id that no other agent has, as long as the agent lives. */
  user: string | { group: number } | null;
  memoryBytes: number;
  /** The number of cores; 0.5 is half of one. */
  cpus: number;
  pids: number;
  /** The files that one process may have open. */
  openFiles: number;
  readOnlyRoot: boolean;
  egress: AgentEgress;
  tmpfs: TmpfsMount[];
  /** The size of /dev/shm; null stands for the engine's own, 64 MiB. */
  shmBytes: number | null;
  /** True if its programs may make user namespaces, as a browser does for its sandbox. */
  userNamespaces: boolean;
}

/** An image of a registry, or one that the engine has already. */
export interface ReferenceSource {
  kind: 'reference';
  reference: string;
  /**
   * Returns whether the engine's image of that name, given by digest or id, may be used; otherwise the image is pulled.
   */
  mayUse: (image: string) => Promise<boolean>;
  /** Throws `RuntimeRefused` if the image must not be pulled. It is asked right before each pull, and not for an image that is used as it is. */
  beforePull?: () => Promise<void>;
  /** Returns the credential for the image's registry; null if there is none. It is asked for right before a pull. */
  credential?: () => Promise<RegistryCredential | null>;
}

/** A folder with a Dockerfile. */
export interface DockerfileSource {
  kind: 'dockerfile';
  directory: string;
  dockerfile: string;
  start: string[] | null;
  /** The account that it is built for, and with what was built for it before. */
  accountId: string;
  /** The images that it names, as it writes them. They are fetched as `reference` says before it is built, which takes nothing from elsewhere. */
  bases?: ReferenceSource[];
}

/** The source of an image; `computer` stands for the desktop of computers. */
export type ImageSource =
  | ReferenceSource
  | DockerfileSource
  /** One of our programs for a language runtime: the folder's files on that runtime's base image, started by `start`. */
  | { kind: 'program'; directory: string; language: 'node'; start: string[] }
  /** A project without a Dockerfile, which is installed, built and started as the plan says. */
  | { kind: 'project'; directory: string; plan: ProjectPlan; settings: BuildSettings }
  | { kind: 'computer' }
  /** An image as an earlier call returned it. It is refused if the engine does not have it any more. */
  | { kind: 'earlier'; earlier: ResolvedImage };

export interface ResolvedImage {
  /** The pinned image: a digest or an image id; for the local runtime the folder's content hash. */
  image: string;
  /** The name for display. */
  name: string;
  /** The command, in exec form, that a container of it will run. A shell string is refused with `ShellCommand`. */
  command: string[];
}

export interface ExecRequest {
  argv: string[];
  stdin?: Buffer | AsyncIterable<Buffer>;
  timeoutMs: number;
  /** The limit for stdout and stderr together, in bytes. */
  outputLimitBytes: number;
  environment?: Record<string, string>;
  /** The folder in which it runs; by default the volume, or that of the session. A path that is not absolute starts at the volume. */
  cwd?: string;
  /** The session whose shell runs it, and is killed with it. What `argv` does to the shell, as `/bin/sh -c` and a text, stays for the next one. */
  session?: string;
  /** Kills the command when it aborts. The call then throws the signal's reason. */
  signal?: AbortSignal;
  /** Receives the output as it comes, up to the limit. The result then holds none. */
  onOutput?: (stream: OutputStream, bytes: Buffer) => void;
  /** Holds the reading of the output up, and with it the command if it prints much. */
  pace?: ReadPace;
}

export type OutputStream = 'stdout' | 'stderr';

export interface ExecResult {
  /** The exit code; 124 if the command was killed at its deadline. */
  exitCode: number;
  stdout: Buffer;
  stderr: Buffer;
  timedOut: boolean;
  truncated: boolean;
}

/** The value of TERM in terminals. */
export const TERMINAL_TYPE = 'xterm-256color';

export interface TerminalRequest {
  cols: number;
  rows: number;
  /** Kills the shell, with all that it started, when it aborts. */
  signal: AbortSignal;
}

/**
 * A place to connect to in a container: a socket by its absolute path there, or a port of its loopback address. Without containers, the path is that
 * of the socket in the volume or in the agent's own folder, as for files.
 */
export type DialTarget = { unix: string } | { port: number };

/** A terminal in a container, with a shell. */
export interface Terminal {
  /** Takes input and gives output. No more output is taken from the shell than is read here, and no more input is taken than it reads. */
  readonly stream: Duplex;
  /** Resolves when the shell and all that it started have ended, with the shell's exit code; null if that is not known. Never rejects. */
  readonly ended: Promise<number | null>;
  /** Tells the programs in the terminal its new size. */
  resize(cols: number, rows: number): Promise<void>;
}

/**
 * A position in a container's output: all lines up to and including it have been seen. `count` is the number of lines so far with that
 * time.
 */
export interface LogCursor {
  generation: number;
  /** The engine's own time stamp, in nanoseconds; it is compared as text. */
  time: string;
  count: number;
  /** When the line of the other output began that had not ended here. Absent if there was none. */
  open?: string;
}

export interface LogLine {
  stream: OutputStream;
  /** The text as UTF-8, with U+FFFD for invalid bytes, without NUL or line end, at most 256 KiB and a mark that says how much was cut. */
  text: string;
  cursor: LogCursor;
}

/** An event only wakes; inspection decides. After `lost` everything has to be inspected; an engine that was followed was away from `since` on. */
export type RuntimeEvent = { kind: 'changed'; agentId: string } | { kind: 'lost'; since?: Date };

/** The addresses that one agent may reach: everything that the operator allows agents to reach, nothing, or the listed names alone. */
export type AgentEgress = 'internet' | 'none' | AllowList;

/** The engine can't be reached, or hangs. The outcome of the call is unknown; try again later. */
export class RuntimeUnavailable extends Error {
  constructor(cause: unknown, message = 'the container engine does not answer') {
    super(message, { cause });
    this.name = 'RuntimeUnavailable';
  }
}

/** The engine answers, and can't be used. That counts as unavailable, since agents have to be left as they are; `message` says why. */
export class EngineUnsupported extends RuntimeUnavailable {
  constructor(reason: string) {
    super(undefined, reason);
    this.name = 'EngineUnsupported';
  }
}

/** The engine refused the call, and would refuse it again. `message` may be shown in the build log. */
export class RuntimeRefused extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'RuntimeRefused';
  }
}

/** The engine does not have the pinned image of a deployment any more. */
export class ImageGone extends RuntimeRefused {
  constructor(
    readonly image: string,
    name = image,
  ) {
    super(`The engine does not have the image ${name} of that deployment any more. Deploy it anew.`);
    this.name = 'ImageGone';
  }
}

/** The engine had the image a moment ago, and has lost it since. Whoever still needs it gets it anew. */
export class ImageLost extends RuntimeRefused {
  constructor(name: string, options?: ErrorOptions) {
    super(`The engine has lost the image ${name}, or a layer of it, before it was used. Deploy again.`, options);
    this.name = 'ImageLost';
  }
}

/** The start command is a shell string; `message` says so and how to write it. */
export class ShellCommand extends RuntimeRefused {
  constructor(command: string[]) {
    super(
      `The start command is a shell string: ${JSON.stringify(command)}. A shell would stand between the agent and its signals. ` +
        'Write it in exec form, a JSON array of the program and its arguments, such as CMD ["node", "server.js"] instead of CMD node server.js.',
    );
    this.name = 'ShellCommand';
  }
}

/** The container of the handle no longer exists. */
export class ContainerGone extends Error {
  constructor(handle: ContainerHandle) {
    super(`container ${handle} is gone`);
    this.name = 'ContainerGone';
  }
}

/**
 * Runs agents in containers. Every call may be repeated and has a timeout of its own; names and labels let it recover from a crash. Nothing
 * without this instance's label is ever touched. One contract suite (`runtime.contract.ts`) tests all adapters. The calls throw
 * `RuntimeUnavailable`, `RuntimeRefused`, `ContainerGone`.
 */
export abstract class ContainerRuntime {
  abstract readonly name: 'docker' | 'local';
  /** The files of running containers. */
  abstract readonly files: AgentFiles;
  /** The commands that go on in running containers. */
  abstract readonly commands: AgentCommands;
  /** The images that are kept. */
  abstract readonly images: ImageStore;
  abstract capabilities(): Promise<RuntimeCapabilities>;
  /** Makes one call to the engine. Throws `RuntimeUnavailable`. */
  abstract ping(): Promise<void>;
  /** Returns what is wrong with the engine. Throws `RuntimeUnavailable`. */
  abstract engineStatus(): Promise<EngineStatus>;
  /**
   * Returns whether the engine answers, within a second. It costs nothing if the engine answered a call just before; otherwise all
   * concurrent callers share one ping. Never throws.
   */
  abstract available(): Promise<boolean>;
  /** Pulls, builds or finds the image, and logs its progress, a line for each step. */
  abstract ensureImage(source: ImageSource, log: (line: string) => void, signal: AbortSignal): Promise<ResolvedImage>;
  abstract ensureVolume(agentId: string): Promise<void>;
  abstract removeVolume(agentId: string): Promise<void>;
  /**
   * Returns how much each agent keeps in its volume and in those that its image declares. Volumes that do not exist, or are not measured within
   * `withinMs`, are left out. No more than `filesMax` files are counted.
   */
  abstract volumeSizes(agentIds: readonly string[], bounds: MeasureBounds): Promise<ReadonlyMap<string, VolumeSize>>;
  /**
   * Creates the container without starting it, and its volume if there is none. An existing container is adopted. The host name stays the
   * same for the agent's life.
   */
  abstract create(spec: ContainerSpec): Promise<ContainerView>;
  /**
   * Starts the container with the variables of its spec, which the engine does not keep. Returns false if somebody else had started it, who may
   * not have given it its variables: such a container ends with `notBegun`.
   */
  abstract start(handle: ContainerHandle, environment: Readonly<Record<string, string>>): Promise<boolean>;
  /** Sends SIGTERM, then SIGKILL after the grace (seconds). A frozen container is thawed first. */
  abstract stop(handle: ContainerHandle, graceSeconds: number): Promise<void>;
  abstract freeze(handle: ContainerHandle): Promise<void>;
  abstract thaw(handle: ContainerHandle): Promise<void>;
  /**
   * Returns the container's changes since a time, in order, as far as the engine still knows them: it forgets old ones, and all when it is
   * restarted. Of more than one change to a state the last one counts. One that is gone is no error.
   */
  abstract transitions(handle: ContainerHandle, since: string): Promise<Transition[]>;
  /** Ends the container if it runs, and removes it. */
  abstract remove(handle: ContainerHandle): Promise<void>;
  /**
   * Returns all containers of the agent, and whether its volume exists. Given the generation that the agent wants, the cost does not depend
   * on the number of containers. A container of an older generation that a stale process creates late is then found only after the next
   * `list`.
   */
  abstract inspect(agentId: string, generation?: number): Promise<{ containers: ContainerView[]; volume: boolean }>;
  /** Returns all containers of this instance, and the agents whose volumes exist, by one bulk list. */
  abstract list(): Promise<RuntimeList>;

  private latest: { begunAt: number; list: Promise<RuntimeList> } | null = null;

  /** Returns a list that was begun at most so long ago (ms), so that callers at about the same time share one. */
  listed(maxAgeMs: number): Promise<RuntimeList> {
    if (this.latest === null || performance.now() - this.latest.begunAt > maxAgeMs) {
      const latest = { begunAt: performance.now(), list: this.list() };
      this.latest = latest;
      // A failure is shared only by the callers that already wait for it.
      latest.list.catch(() => {
        if (this.latest === latest) this.latest = null;
      });
    }
    return this.latest.list;
  }

  /** Returns the handle of the agent's container of that generation; null unless it runs and was made by this release. */
  async running({ agentId, generation }: ContainerName): Promise<ContainerHandle | null> {
    const { containers } = await this.inspect(agentId, generation);
    const isWanted = (view: ContainerView) => view.generation === generation && view.state === 'running' && view.outdated === undefined;
    return containers.find(isWanted)?.handle ?? null;
  }

  /** Runs a command in the running container; kills its whole process group at the deadline, or when the request's signal aborts. */
  abstract exec(handle: ContainerHandle, request: ExecRequest): Promise<ExecResult>;
  /**
   * Opens a terminal in the running container, with bash or sh of its image, or else the helper's shell. The shell ends with the service, too.
   */
  abstract terminal(handle: ContainerHandle, request: TerminalRequest): Promise<Terminal>;
  /**
   * Connects to a socket or a port in the running container. The signal ends the wait for the connection, and not the connection. That stays open
   * while the container is frozen, and closes, with no other error, when either side or the container ends. A container has 40 at most. Throws
   * `RuntimeRefused` if nobody accepts it.
   */
  abstract dial(handle: ContainerHandle, to: DialTarget, signal: AbortSignal): Promise<Duplex>;
  /** Unpacks a plain tar into a container that has not been started. */
  abstract copyIn(handle: ContainerHandle, path: string, tar: NodeJS.ReadableStream): Promise<void>;
  /**
   * Yields the output after the cursor (null: from its start), and new output, until the container ends or the signal aborts. If the line of
   * the cursor no longer exists, `lostOutput` precedes the first line. A line is yielded once it has ended.
   */
  abstract logs(handle: ContainerHandle, after: LogCursor | null, signal: AbortSignal, bounds?: OutputBounds): AsyncIterable<LogLine>;
  /** Returns the texts of the last lines of the output so far, at most `count`. The cost does not depend on the length of the output. */
  abstract lastLines(handle: ContainerHandle, count: number): Promise<string[]>;
  abstract events(signal: AbortSignal): AsyncIterable<RuntimeEvent>;
  /**
   * Returns the address of the container's port from here. Throws `RuntimeRefused` unless the container is running, since a frozen one does
   * not answer.
   */
  abstract address(container: ContainerName, port: number): Promise<AgentAddress>;
  /** Returns the state of the egress rules; null if the runtime does not restrict agents. */
  abstract egress(): Promise<EgressStatus | null>;
  /** Returns the state of agents' ports; null if nobody but the service reaches them. */
  abstract agentPorts(): Promise<AgentPorts | null>;
  /** Returns the state of the builds of Dockerfiles; null if the runtime builds none. */
  abstract dockerfileBuilds(): Promise<DockerfileBuilds | null>;
  abstract close(): Promise<void>;
}
