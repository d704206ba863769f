import type { Duplex } from 'node:stream';

import type { AgentAddress } from '../kernel/network/agent-address.ts';
import type { AgentCommands } from './agent-commands.ts';
import type { AgentPorts } from './agent-ports.ts';
import type { ContainerHandle, ContainerName, ContainerSpec, ContainerView, RuntimeList, Transition } from './container.ts';
import type { DockerfileBuilds, EgressStatus, EngineStatus } from './engine-status.ts';
import type { AgentFiles, MeasureBounds, VolumeSize } from './files.ts';
import type { ImageSource, ResolvedImage } from './image-source.ts';
import type { ImageStore } from './image-store.ts';
import type { OutputBounds, ReadPace } from './output-bounds.ts';
import type { RuntimeCapabilities } from './runtime-capabilities.ts';

export interface ExecRequest {
  argv: string[];
  stdin?: Buffer | AsyncIterable<Buffer>;
  timeoutMs: number;
  /** The limit for stdout and stderr together, in bytes. */
  outputLimitBytes: number;
  environment?: Record<string, string>;
  /** The working directory; by default the volume, or that of the session. A relative path starts at the volume. */
  cwd?: string;
  /**
   * The session whose shell runs the command and is killed with it. Changes to the shell by `/bin/sh -c` and a text last in the session.
   */
  session?: string;
  /** Kills the command when it aborts. The call then throws the signal's reason. */
  signal?: AbortSignal;
  /** Receives the output as it arrives, up to the limit. The result then contains no output. */
  onOutput?: (stream: OutputStream, bytes: Buffer) => void;
  /** Slows down the reading of the output, and with it a command that prints much. */
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
  /** Kills the shell, with all processes that it started, when the signal aborts. */
  signal: AbortSignal;
}

/**
 * The target of a connection into a container: a socket by its absolute path there, or a port of its loopback address. Without containers,
 * the path is that of the socket in the volume or in the agent's own folder, as for files.
 */
export type DialTarget = { unix: string } | { port: number };

/** A terminal in a container, with a shell. */
export interface Terminal {
  /** Accepts input and yields output, each no faster than the other side reads. */
  readonly stream: Duplex;
  /** Resolves when the shell and all its processes have ended, with the shell's exit code; null if that is unknown. Never rejects. */
  readonly ended: Promise<number | null>;
  /** Changes the size of the terminal, and notifies the programs in it. */
  resize(cols: number, rows: number): Promise<void>;
}

/**
 * A position in a container's output: all lines up to and including it have been read. `count` is the number of lines so far with that
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

/** An event is only a trigger for an inspection. After `lost` everything has to be inspected; the engine was unavailable since `since`. */
export type RuntimeEvent = { kind: 'changed'; agentId: string } | { kind: 'lost'; since?: Date };

/**
 * Runs agents in containers. Every call may be repeated and has its own timeout; names and labels let it recover from a crash. Resources
 * without this instance's label are never touched. One contract suite (`runtime.contract.ts`) tests all adapters. The calls throw
 * `RuntimeUnavailable`, `RuntimeRefused`, `ContainerGone`.
 */
export abstract class ContainerRuntime {
  abstract readonly name: 'docker' | 'local';
  /** The files of running containers. */
  abstract readonly files: AgentFiles;
  /** The long-running commands of running containers. */
  abstract readonly commands: AgentCommands;
  /** The stored images. */
  abstract readonly images: ImageStore;
  abstract capabilities(): Promise<RuntimeCapabilities>;
  /** Makes one call to the engine. Throws `RuntimeUnavailable`. */
  abstract ping(): Promise<void>;
  /** Returns the problems of the engine. Throws `RuntimeUnavailable`. */
  abstract engineStatus(): Promise<EngineStatus>;
  /**
   * Returns whether the engine responds within a second. It costs nothing if the engine has just responded to a call; otherwise all
   * concurrent callers share one ping. Never throws.
   */
  abstract available(): Promise<boolean>;
  /** Pulls, builds or finds the image, and logs its progress, a line for each step. */
  abstract ensureImage(source: ImageSource, log: (line: string) => void, signal: AbortSignal): Promise<ResolvedImage>;
  abstract ensureVolume(agentId: string): Promise<void>;
  abstract removeVolume(agentId: string): Promise<void>;
  /**
   * Returns how much space each agent uses in its volume and in those that its image declares. Volumes that do not exist, or are not
   * measured within `withinMs`, are left out. No more than `filesMax` files are counted.
   */
  abstract volumeSizes(agentIds: readonly string[], bounds: MeasureBounds): Promise<ReadonlyMap<string, VolumeSize>>;
  /**
   * Creates the container without starting it, and its volume if there is none. An existing container is adopted. The host name stays the
   * same for the agent's life.
   */
  abstract create(spec: ContainerSpec): Promise<ContainerView>;
  /**
   * Starts the container with the variables of its spec, which the engine does not store. Returns false if another process had started it,
   * perhaps without its variables: such a container ends with `notBegun`.
   */
  abstract start(handle: ContainerHandle, environment: Readonly<Record<string, string>>): Promise<boolean>;
  /** Sends SIGTERM, then SIGKILL after the grace (seconds). A frozen container is thawed first. */
  abstract stop(handle: ContainerHandle, graceSeconds: number): Promise<void>;
  abstract freeze(handle: ContainerHandle): Promise<void>;
  abstract thaw(handle: ContainerHandle): Promise<void>;
  /**
   * Returns the container's state changes since a time, in order, as far as the engine still has them: it discards old ones, and all at its
   * restart. For several changes to one state only the last one counts. A container that is gone is no error.
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
  /** Returns all containers of this instance, and the agents whose volumes exist, with one list call. */
  abstract list(): Promise<RuntimeList>;

  private cachedList: { begunAt: number; list: Promise<RuntimeList> } | null = null;

  /** Returns a list whose request began at most this long ago (ms), so that callers at about the same time share one. */
  listCached(maxAgeMs: number): Promise<RuntimeList> {
    if (this.cachedList === null || performance.now() - this.cachedList.begunAt > maxAgeMs) {
      const latest = { begunAt: performance.now(), list: this.list() };
      this.cachedList = latest;
      // A failure is shared only by the callers that are already waiting for it.
      latest.list.catch(() => {
        if (this.cachedList === latest) this.cachedList = null;
      });
    }
    return this.cachedList.list;
  }

  /** Returns the handle of the agent's container of that generation; null unless it runs and was created by this release. */
  async running({ agentId, generation }: ContainerName): Promise<ContainerHandle | null> {
    const { containers } = await this.inspect(agentId, generation);
    const isWanted = (view: ContainerView) => view.generation === generation && view.state === 'running' && view.outdated === undefined;
    return containers.find(isWanted)?.handle ?? null;
  }

  /** Runs a command in the running container; kills its whole process group at the deadline, or when the request's signal aborts. */
  abstract exec(handle: ContainerHandle, request: ExecRequest): Promise<ExecResult>;
  /** Opens a terminal in the running container, with its image's bash or sh, or else the helper's shell. It ends with the service, too. */
  abstract terminal(handle: ContainerHandle, request: TerminalRequest): Promise<Terminal>;
  /**
   * Connects to a socket or a port in the running container. The signal aborts only the wait for the connection, not the connection. The
   * connection stays open while the container is frozen, and closes without an error when either side or the container ends. A container
   * can have 40. Throws `RuntimeRefused` if no program accepts it.
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
   * not respond.
   */
  abstract address(container: ContainerName, port: number): Promise<AgentAddress>;
  /** Returns the state of the egress rules; null if the runtime does not restrict agents. */
  abstract egress(): Promise<EgressStatus | null>;
  /** Returns the state of agents' ports; null if only the service can reach them. */
  abstract agentPorts(): Promise<AgentPorts | null>;
  /** Returns the state of Dockerfile builds; null if the runtime does not support them. */
  abstract dockerfileBuilds(): Promise<DockerfileBuilds | null>;
  abstract close(): Promise<void>;

  /**
   * Returns the word that stands for the port in the start command of a project: the port itself, or `PORT_WORD` where the runtime chooses a
   * port at each start and replaces the word by it.
   */
  portWord(port: number): string {
    return String(port);
  }
}
