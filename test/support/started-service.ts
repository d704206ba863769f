import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import Dockerode from 'dockerode';
import { addWitness } from '../runner/evidence.ts';
import { removeDataDir } from './data-dir.ts';
import { eventStoreEnvironment } from './eventstoredb/location.ts';
import { removeInstance } from './images.ts';
import { until } from './until.ts';
import { containersOn, databaseIn, lastEvents, lastLogLines } from './witnesses.ts';

const root = resolve(import.meta.dirname, '../..');
const entry = join(root, 'dist', 'main.js');
/** The program that runs the service: another Node than that of the tests if `TEST_NODE` names one. */
const node = process.env.TEST_NODE ?? process.execPath;

/** The number of characters of the service's output that a failed start shows. */
const OUTPUT_SHOWN = 4_000;

export interface FirstRun {
  url: string;
  email: string;
  password: string;
  api_key: string;
  agent_id: string;
}

/** The body of a response, whose members a test checks one by one. */
// oxlint-disable-next-line typescript/no-explicit-any -- a test's expectation is the check of its form
export type AnyBody = any;

export interface ServiceResponse<Body = AnyBody> {
  status: number;
  headers: Headers;
  body: Body;
}

export interface ServiceOptions {
  runtime: 'docker' | 'local';
  environment?: Record<string, string>;
  /** The options that are passed to node before the entry file. */
  nodeOptions?: string[];
  /** The entry file of the program, if it is not the one that was built last. */
  entry?: string;
  /** A program, and its arguments, that starts node in its own place. */
  wrapper?: string[];
  /** The data folder, if the service does not make and remove its own. */
  dataDir?: string;
  /** The caller's credentials, if another service made them at its first start. */
  caller?: FirstRun;
}

/** The service as its users run it: the built program in its own process, on an embedded database in a new folder. */
export class StartedService {
  private process: ChildProcess | null = null;
  private printed = '';
  private credentials: FirstRun | null = null;
  suspended = false;
  /** Ends what the service says when a test fails. `dispose` calls it. */
  readonly forget = addWitness('started service', () => this.describe());

  private constructor(
    readonly dataDir: string,
    private readonly options: ServiceOptions,
  ) {}

  static async start(options: ServiceOptions): Promise<StartedService> {
    const dataDir = options.dataDir ?? (await mkdtemp(join(tmpdir(), 'mooring-e2e-')));
    const service = new StartedService(dataDir, options);
    await service.start();
    return service;
  }

  /** Starts the service on an existing folder, which `dispose` removes. */
  static async startOn(dataDir: string, options: ServiceOptions): Promise<StartedService> {
    const service = new StartedService(dataDir, options);
    await service.start();
    return service;
  }

  get firstRun(): FirstRun {
    if (this.credentials === null) throw new Error('the service has not started');
    return this.credentials;
  }

  get output(): string {
    return this.printed;
  }

  get pid(): number {
    return this.process?.pid ?? -1;
  }

  /** The most memory that the process has used since it started, in MB. */
  get peakMemoryMb(): number {
    const status = readFileSync(`/proc/${this.pid}/status`, 'utf8');
    return Math.round(Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) / 1_024);
  }

  get running(): boolean {
    return this.process !== null && this.process.exitCode === null && this.process.signalCode === null;
  }

  /** Returns whether the process ended by SIGKILL. */
  get wasKilled(): boolean {
    return this.process?.signalCode === 'SIGKILL';
  }

  async start(): Promise<void> {
    const environment = {
      ...Object.fromEntries(
        Object.entries(process.env).filter(([name]) => !/^(MOORING_|DATABASE_URL|PORT|HOST|NODE_OPTIONS|NODE_ENV)/.test(name)),
      ),
      PORT: '0',
      MOORING_DATA_DIR: this.dataDir,
      MOORING_RUNTIME: this.options.runtime,
      MOORING_SAMPLE_AGENT: 'off',
      ...eventStoreEnvironment(this.dataDir),
      ...this.options.environment,
    };
    const words = [...(this.options.wrapper ?? []), node, ...(this.options.nodeOptions ?? []), this.options.entry ?? entry];
    const child = spawn(words[0] as string, words.slice(1), {
      env: environment,
      cwd: root,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.process = child;
    let output = '';
    const collect = (chunk: Buffer) => {
      output += chunk.toString();
      this.printed += chunk.toString();
    };
    child.stdout?.on('data', collect);
    child.stderr?.on('data', collect);
    const url = await until('the service answers', async () => {
      if (!this.running) throw new Error('the service ended');
      const address = /Mooring listens on (http:\/\/\S+)/.exec(output)?.[1];
      const health = address === undefined ? null : await fetch(`${address}/health`).catch(() => null);
      return health?.ok === true ? address : undefined;
    }).catch((error: Error) => {
      throw new Error(`${error.message}; it printed: ${output.slice(-OUTPUT_SHOWN)}`);
    });
    const firstRun = this.options.caller ?? (await until('first-run.json stands', () => this.readFirstRun()));
    this.credentials = { ...firstRun, url: url };
  }

  /** Returns what the service printed last, the last events of its log, and its containers, without its credentials. */
  private async describe(): Promise<string> {
    const { environment = {}, runtime } = this.options;
    const state = this.running ? 'The process runs.' : `The process has ended (${this.process?.exitCode ?? this.process?.signalCode}).`;
    const database = environment.DATABASE_URL ?? (await databaseIn(this.dataDir).catch(() => null));
    const events = database === null ? 'no events, since there is no database' : await lastEvents(database);
    const instance = runtime === 'docker' ? await this.instance().catch(() => null) : null;
    const containers = instance === null ? '' : `\n${await containersOn(new Dockerode(), `mooring.instance=${instance}`)}`;
    return this.withoutCredentials(`${state}\n${lastLogLines(this.printed.trimEnd().split('\n'))}\n${events}${containers}`);
  }

  /** Masks the first credentials, which a service prints at its first start. */
  private withoutCredentials(text: string): string {
    return text.replaceAll(/mk_\w+/g, 'mk_•••').replaceAll(/^( {2}password {2}).+$/gm, '$1•••');
  }

  /** Returns the installation's own id, with which it labels what it makes on the engine. */
  async instance(): Promise<string> {
    return (await readFile(join(this.dataDir, 'instance-id'), 'utf8')).trim();
  }

  private async readFirstRun(): Promise<FirstRun | undefined> {
    const text = await readFile(join(this.dataDir, 'first-run.json'), 'utf8').catch(() => null);
    return text === null ? undefined : (JSON.parse(text) as FirstRun);
  }

  /** Sends one request with the first key. */
  async call<Body = AnyBody>(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<ServiceResponse<Body>> {
    const response = await fetch(`${this.firstRun.url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${this.firstRun.api_key}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(150_000),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: (text === '' ? null : JSON.parse(text)) as Body };
  }

  /** Sends SIGKILL, as in a crash. PostgreSQL and the agents keep running. */
  async kill(): Promise<void> {
    this.process?.kill('SIGKILL');
    await this.ended();
  }

  /** Sends SIGSTOP: the process hangs in the middle of its work, and its connections stay open. */
  pause(): void {
    this.suspended = true;
    this.process?.kill('SIGSTOP');
  }

  resume(): void {
    this.process?.kill('SIGCONT');
    this.suspended = false;
  }

  async ended(): Promise<void> {
    if (this.process !== null && this.running) await once(this.process, 'exit');
  }

  /** Returns whether the process ends within the time, in ms. */
  async endsWithin(ms: number): Promise<boolean> {
    const patience = new AbortController();
    const timer = setTimeout(() => patience.abort(), ms);
    if (this.process !== null && this.running) await once(this.process, 'exit', { signal: patience.signal }).catch(() => undefined);
    clearTimeout(timer);
    return !this.running;
  }

  /** Sends SIGTERM and waits for a clean end. */
  async stop(): Promise<void> {
    if (!this.running) return;
    this.process?.kill('SIGTERM');
    await this.ended();
  }

  /** Deletes every agent and computer, ends the service, and leaves nothing behind, not even on the engine. */
  async dispose(): Promise<void> {
    if (!this.running) await this.start();
    const agents = await this.call<{ agent_id: string }[]>('GET', '/api/v1/agents?limit=200');
    const { status, body: computers } = await this.call<{ computer_id: string }[]>('GET', '/api/v1/computers?limit=200');
    await Promise.all([
      ...agents.body.map(({ agent_id }) => this.call('DELETE', `/api/v1/agents/${agent_id}`)),
      // An earlier release has none.
      ...(status === 200 ? computers : []).map(({ computer_id }) => this.call('DELETE', `/api/v1/computers/${computer_id}`)),
    ]);
    await this.stop();
    if (this.options.runtime === 'docker') {
      await removeInstance(new Dockerode(), await this.instance());
    }
    await removeDataDir(this.dataDir);
    this.forget();
  }
}
