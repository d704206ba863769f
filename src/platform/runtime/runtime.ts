/** Opaque: ask again after a stop and a wake. */
export type ContainerHandle = string;

export type ContainerState = 'created' | 'running' | 'frozen' | 'exited';

/** What leads to a container without its handle: an agent has at most one of each generation. */
export interface ContainerName {
  agentId: string;
  generation: number;
}

/** Immutable facts that a container bears as labels. */
export interface ContainerIdentity extends ContainerName {
  deploymentId: string;
}

/** What one bulk look at the engine shows of a container. */
export interface ListedContainer extends ContainerIdentity {
  handle: ContainerHandle;
  state: ContainerState;
}

export interface RuntimeList {
  containers: readonly ListedContainer[];
  /** The agents whose volumes stand. */
  volumes: readonly string[];
}

export interface ContainerView extends ListedContainer {
  /** Of the last run; null where it has not ended, or the engine does not know. */
  exitCode: number | null;
  oomKilled: boolean;
  /** ISO 8601; null where it never ran. */
  startedAt: string | null;
}

export interface ContainerSpec extends ContainerIdentity {
  /** As `ensureImage` gave it. */
  image: string;
  /** Exec form; null takes the image's own. */
  command: string[] | null;
  environment: Record<string, string>;
  /** The port on which the agent listens. */
  port: number;
  /** Where the agent's volume is mounted. */
  volumePath: string;
  /** Stays the same for the agent's life. */
  hostname: string;
  /** Null takes the image's own. */
  user: string | null;
  memoryBytes: number;
  /** Cores, 0.5 is half of one. */
  cpus: number;
  pids: number;
  readOnlyRoot: boolean;
  /** Paths of tmpfs mounts. */
  tmpfs: string[];
}

/** What an image is made from. */
export type ImageSource =
  /** `mayUse` tells whether what the engine has under the name, by its digest or id, may be used; anything else is pulled. */
  | { kind: 'reference'; reference: string; mayUse: (image: string) => Promise<boolean> }
  /** A folder with a Dockerfile. */
  | { kind: 'dockerfile'; directory: string; dockerfile: string; start: string[] | null }
  /** A program of ours for a language runtime: the folder's files on top of that runtime's base image, started by `start`. */
  | { kind: 'program'; directory: string; language: 'node'; start: string[] };

export interface ResolvedImage {
  /** Pinned: a digest or an image id; for the local runtime the folder's content hash. */
  image: string;
  /** As people name it. */
  name: string;
  /** The exec form that a container of it will run; refused with `ShellCommand` where it is a shell string. */
  command: string[];
}

export interface ExecRequest {
  argv: string[];
  stdin?: Buffer | AsyncIterable<Buffer>;
  timeoutMs: number;
  /** stdout and stderr together, bytes. */
  outputLimitBytes: number;
  environment?: Record<string, string>;
}

export interface ExecResult {
  /** 124 where it was killed for time. */
  exitCode: number;
  stdout: Buffer;
  stderr: Buffer;
  timedOut: boolean;
  truncated: boolean;
}

/** A place in a container's output: lines up to and with it have been seen. `count` lines bore that same time. */
export interface LogCursor {
  generation: number;
  /** The engine's own time stamp, nanoseconds kept: compare as text. */
  time: string;
  count: number;
}

export interface LogLine {
  stream: 'stdout' | 'stderr';
  /** UTF-8 with U+FFFD for what was not; no NUL, no line end; at most 16 KiB. */
  text: string;
  cursor: LogCursor;
}

/** Only wakes; inspection decides. `lost` means: look at everything, the stream had a gap. */
export type RuntimeEvent = { kind: 'changed'; agentId: string } | { kind: 'lost' };

export interface RuntimeCapabilities {
  /** Memory can be kept over a sleep. */
  freeze: boolean;
  /** Agents are kept from each other and from the host. */
  isolation: boolean;
  /** `reference` and `dockerfile` images can be run. */
  images: boolean;
}

/** What agents may reach: the internet and nothing private, nothing at all, or everything that their host can. */
export type EgressMode = 'internet' | 'none' | 'all';

/** How the operator's setting of what agents may reach is kept. */
export interface EgressStatus {
  /** Why it can't be enforced; null where it is, or where nothing has to be. */
  lack: string | null;
  /** Packets of agents that were refused, by what they were going to; at most a minute old. */
  refused: ReadonlyMap<string, number>;
}

/** The engine can't be reached, or hangs: try again later, nothing is known about the outcome. */
export class RuntimeUnavailable extends Error {
  constructor(cause: unknown) {
    super('the container engine does not answer', { cause });
    this.name = 'RuntimeUnavailable';
  }
}

/** The engine answered that it can't be done, and a repeat would hear the same. `message` is fit for the build log. */
export class RuntimeRefused extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'RuntimeRefused';
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

/** What the handle named is gone. */
export class ContainerGone extends Error {
  constructor(handle: ContainerHandle) {
    super(`container ${handle} is gone`);
    this.name = 'ContainerGone';
  }
}

/**
 * Where agents run. Every call may be repeated and has a time-out of its own; names and labels heal what a crash left.
 * Nothing without this instance's label is ever touched. One contract suite (`runtime.contract.ts`) holds the adapters to it.
 * Throws `RuntimeUnavailable`, `RuntimeRefused`, `ContainerGone`.
 */
export abstract class ContainerRuntime {
  abstract readonly name: 'docker' | 'local';
  abstract capabilities(): Promise<RuntimeCapabilities>;
  /** One call to the engine. */
  abstract ping(): Promise<void>;
  /**
   * Whether the engine answers, known within a second. Costs nothing where it answered a call a moment ago; otherwise all who ask at
   * once share one ping. Never throws.
   */
  abstract available(): Promise<boolean>;
  /** Pulls, builds or finds it; says what it does, a line each. */
  abstract ensureImage(source: ImageSource, log: (line: string) => void, signal: AbortSignal): Promise<ResolvedImage>;
  abstract ensureVolume(agentId: string): Promise<void>;
  abstract removeVolume(agentId: string): Promise<void>;
  /** Makes it, not started, and its volume where there is none. Where it stands already it is adopted. */
  abstract create(spec: ContainerSpec): Promise<ContainerView>;
  abstract start(handle: ContainerHandle): Promise<void>;
  /** SIGTERM, then SIGKILL after the grace (seconds). A frozen container is thawed first. */
  abstract stop(handle: ContainerHandle, graceSeconds: number): Promise<void>;
  abstract freeze(handle: ContainerHandle): Promise<void>;
  abstract thaw(handle: ContainerHandle): Promise<void>;
  /** Ends it where it runs, and removes it. */
  abstract remove(handle: ContainerHandle): Promise<void>;
  /**
   * All containers of the agent, and whether its volume stands. Given the generation that the agent wants, it costs the same however
   * many containers the engine has. What a superseded process makes late, of an older generation, then shows after the next `list`.
   */
  abstract inspect(agentId: string, generation?: number): Promise<{ containers: ContainerView[]; volume: boolean }>;
  /** All containers of this instance, and the agents whose volumes stand, in one bulk look. */
  abstract list(): Promise<RuntimeList>;

  private latest: { begunAt: number; list: Promise<RuntimeList> } | null = null;

  /** `list`, begun at most so long ago (ms): those who look at everything at about the same time share one look. */
  listed(maxAgeMs: number): Promise<RuntimeList> {
    if (this.latest === null || performance.now() - this.latest.begunAt > maxAgeMs) {
      const latest = { begunAt: performance.now(), list: this.list() };
      this.latest = latest;
      // What failed is shared by those who wait for it, and by nobody who asks later.
      latest.list.catch(() => {
        if (this.latest === latest) this.latest = null;
      });
    }
    return this.latest.list;
  }

  /** Runs it inside the running container; kills its whole process group when the time is over. */
  abstract exec(handle: ContainerHandle, request: ExecRequest): Promise<ExecResult>;
  /** Unpacks a plain tar into a container that has not been started. */
  abstract copyIn(handle: ContainerHandle, path: string, tar: NodeJS.ReadableStream): Promise<void>;
  /** The path as a plain tar. */
  abstract copyOut(handle: ContainerHandle, path: string): Promise<NodeJS.ReadableStream>;
  /** Output after the cursor (null: from its start), and what follows, until the container ends or the signal aborts. */
  abstract logs(handle: ContainerHandle, after: LogCursor | null, signal: AbortSignal): AsyncIterable<LogLine>;
  abstract events(signal: AbortSignal): AsyncIterable<RuntimeEvent>;
  /** Where the container's port can be reached from here. Throws `RuntimeRefused` unless the container is running: a frozen one answers nobody. */
  abstract address(container: ContainerName, port: number): Promise<{ host: string; port: number }>;
  /** Null where the runtime keeps agents from nothing. */
  abstract egress(): Promise<EgressStatus | null>;
  abstract close(): Promise<void>;
}
