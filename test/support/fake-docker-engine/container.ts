import { randomBytes } from 'node:crypto';

import type { ProgramRun, FakeProgram } from './program.ts';

export type Labels = Record<string, string>;

/** The members of a request for a container that the stand-in reads; it stores and returns all of them. */
export interface CreateBody {
  Image: string;
  Env?: string[];
  Hostname?: string;
  Entrypoint?: string[];
  Cmd?: string[];
  User?: string;
  Labels?: Labels;
  HostConfig?: { NetworkMode?: string; Mounts?: { Source: string; Target: string; ReadOnly?: boolean }[] } & Record<string, unknown>;
}

export type Status = 'created' | 'running' | 'paused' | 'exited';

interface LogEntry {
  time: string;
  stream: 'stdout' | 'stderr';
  bytes: Buffer;
}

const SUPERVISOR = '/.mooring/supervisor';
const NEVER = '0001-01-01T00:00:00Z';
/** The most pieces of output that a container keeps; the latest are kept. */
const LOG_MAX = 5_000;
const DEFAULT_PORT = 8080;
const SIGTERM_EXIT = 143;

let stamped = 0;

/** Returns the time in RFC 3339 with nanoseconds, always later than the previous one. */
function stamp(): string {
  stamped = (stamped + 1) % 1_000_000;
  return new Date().toISOString().replace('Z', `${String(stamped).padStart(6, '0')}Z`);
}

/** The parts of which a container is made. */
export interface ContainerParts {
  imageId: string;
  /** The address on which its program listens. */
  address: string;
  program: FakeProgram;
  /** The files of its volume, by path relative to the mount point. */
  files: Map<string, Buffer>;
}

/** A container without a process: its state as the engine reports it, and the program that stands in for a real one. */
export class FakeContainer {
  readonly id = randomBytes(32).toString('hex');
  readonly created = new Date().toISOString();
  status: Status = 'created';
  exitCode = 0;
  startedAt = NEVER;
  finishedAt = NEVER;
  readonly log: LogEntry[] = [];
  /** The callbacks that are called after each piece of output and when the container has ended. */
  readonly followers = new Set<() => void>();
  private memory = new Map<string, unknown>();
  /** The variables that the supervisor got; null before, and in a container without one. */
  private variables: Record<string, string> | null = null;
  private waitingForThaw: (() => void)[] = [];

  constructor(
    readonly name: string,
    readonly body: CreateBody,
    readonly parts: ContainerParts,
    private readonly onExit: (container: FakeContainer) => void,
  ) {}

  get labels(): Labels {
    return this.body.Labels ?? {};
  }

  get port(): number {
    return Number(this.environment().PORT ?? DEFAULT_PORT);
  }

  get running(): boolean {
    return this.status === 'running' || this.status === 'paused';
  }

  /** The value is true if its first process is the supervisor, which waits for the agent's variables. */
  get isSupervised(): boolean {
    return this.body.Entrypoint?.[0] === SUPERVISOR;
  }

  get command(): string[] {
    const words = [...(this.body.Entrypoint ?? []), ...(this.body.Cmd ?? [])];
    return this.isSupervised ? words.slice(2) : words;
  }

  start(): void {
    this.status = 'running';
    this.startedAt = stamp();
    this.memory = new Map();
    this.variables = null;
  }

  /** Starts the program, with the variables that its supervisor got. */
  begin(variables: Record<string, string> | null): void {
    this.variables = variables;
    this.parts.program.start?.(this.run());
  }

  /** Returns the program's view of this start; a later start of the container is another run. */
  run(): ProgramRun {
    const began = this.startedAt;
    return {
      environment: this.environment(),
      command: this.command,
      memory: this.memory,
      volume: this.parts.files,
      print: (stream, bytes) => this.print(stream, bytes),
      exit: (code) => {
        if (this.startedAt === began) this.exit(code);
      },
      isOver: () => !this.running || this.startedAt !== began,
    };
  }

  exit(code: number): void {
    if (!this.running) return;
    this.thaw();
    this.status = 'exited';
    this.exitCode = code;
    this.finishedAt = stamp();
    this.tellFollowers();
    this.onExit(this);
  }

  /** Delivers SIGTERM. Returns whether the program ended. */
  terminate(): boolean {
    const code = this.parts.program.terminate === undefined ? SIGTERM_EXIT : this.parts.program.terminate(this.run());
    if (code !== null) this.exit(code);
    return code !== null;
  }

  freeze(): void {
    this.status = 'paused';
  }

  thaw(): void {
    if (this.status === 'paused') this.status = 'running';
    for (const resolve of this.waitingForThaw.splice(0)) resolve();
  }

  /** Waits until the container is thawed: callers of a frozen program wait. */
  async thawed(): Promise<void> {
    while (this.status === 'paused') await new Promise<void>((resolve) => this.waitingForThaw.push(resolve));
  }

  /** Returns the file at the path on the agent's volume, which is the first one mounted. */
  fileOnVolume(path: string): Buffer | undefined {
    const target = this.body.HostConfig?.Mounts?.[0]?.Target;
    return target === undefined || !path.startsWith(`${target}/`) ? undefined : this.parts.files.get(path.slice(target.length + 1));
  }

  inspect(): object {
    const { Labels = {}, HostConfig = {}, ...config } = this.body;
    const mounts = HostConfig.Mounts ?? [];
    return {
      Id: this.id,
      Name: `/${this.name}`,
      Created: this.created,
      Image: this.parts.imageId,
      Path: this.body.Entrypoint?.[0] ?? '',
      State: {
        Status: this.status,
        Running: this.running,
        Paused: this.status === 'paused',
        Restarting: false,
        OOMKilled: false,
        Dead: false,
        ExitCode: this.exitCode,
        StartedAt: this.startedAt,
        FinishedAt: this.finishedAt,
      },
      Config: { ...config, Labels },
      HostConfig,
      Mounts: mounts.map(({ Source, Target, ReadOnly }) => ({ Type: 'volume', Name: Source, Destination: Target, RW: ReadOnly !== true })),
      NetworkSettings: {
        Ports: {},
        Networks: { [HostConfig.NetworkMode ?? 'bridge']: { IPAddress: this.running ? this.parts.address : '' } },
      },
    };
  }

  listed(): object {
    return {
      Id: this.id,
      Names: [`/${this.name}`],
      Image: this.body.Image,
      ImageID: this.parts.imageId,
      Created: Math.floor(Date.parse(this.created) / 1_000),
      State: this.status,
      Status: this.status,
      Labels: this.labels,
    };
  }

  private environment(): Record<string, string> {
    const pairs = (this.body.Env ?? []).map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]);
    return { HOSTNAME: this.body.Hostname ?? this.id.slice(0, 12), ...Object.fromEntries(pairs), ...this.variables };
  }

  private print(stream: LogEntry['stream'], bytes: Buffer): void {
    this.log.push({ time: stamp(), stream, bytes });
    if (this.log.length > LOG_MAX) this.log.shift();
    this.tellFollowers();
  }

  private tellFollowers(): void {
    for (const follower of this.followers) follower();
  }
}
