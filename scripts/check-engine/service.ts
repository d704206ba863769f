import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, type WriteStream } from 'node:fs';
import { mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

import { removeDataDir } from '../../test/support/data-dir.ts';
import { serviceEnvironment } from './service-environment.ts';

const root = resolve(import.meta.dirname, '../..');
const entry = join(root, 'dist/main.js');
const START_MS = 120_000;
const STOP_MS = 30_000;
const CALL_MS = 130_000;
const LINES_SHOWN = 8;

/** The body of a response, whose members the steps check one by one. */
// oxlint-disable-next-line typescript/no-explicit-any -- a step's expectation is the check of its form
export type Body = any;

export interface ServiceResponse {
  status: number;
  headers: Headers;
  body: Body;
}

export interface FirstRun {
  api_key: string;
  agent_id: string;
}

/** The service as its users run it, with its own data and port. */
export class Service {
  private child: ChildProcess | null = null;
  private address = '';
  private firstRun: FirstRun = { api_key: '', agent_id: '' };
  private readonly lastLines: string[] = [];
  /** Aborts the open calls. */
  signal: AbortSignal = new AbortController().signal;

  private constructor(
    private readonly dataDir: string,
    private readonly log: WriteStream,
    readonly logFile: string,
  ) {}

  static async open(suffix: string): Promise<Service> {
    const logFile = join(tmpdir(), `mooring-check-${suffix}.log`);
    return new Service(await mkdtemp(join(tmpdir(), 'mooring-check-')), createWriteStream(logFile, { mode: 0o600 }), logFile);
  }

  get firstAgent(): string {
    return this.firstRun.agent_id;
  }

  /** Starts the service and waits until it responds. `own` are its settings in addition to the operator's. */
  async start(own: Record<string, string>): Promise<void> {
    const settings = { PORT: '0', HOST: '127.0.0.1', MOORING_DATA_DIR: this.dataDir, MOORING_RUNTIME: 'docker', ...own };
    // In a group of its own, so that Ctrl-C leaves it alive until its agents are deleted.
    const child = spawn(process.execPath, [entry], {
      cwd: root,
      env: serviceEnvironment(process.env, settings),
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    this.child = child;
    for (const stream of [child.stdout, child.stderr]) if (stream !== null) createInterface(stream).on('line', (line) => this.keep(line));
    const deadline = performance.now() + START_MS;
    while (!(await this.answers())) {
      this.signal.throwIfAborted();
      if (!this.runs) throw new Error(`the service ended: ${this.lastLines.join(' | ')}`);
      if (performance.now() > deadline) throw new Error(`the service did not start within ${START_MS / 1_000} s`);
      await sleep(100);
    }
    this.firstRun = JSON.parse(await readFile(join(this.dataDir, 'first-run.json'), 'utf8')) as FirstRun;
  }

  private get runs(): boolean {
    return this.child !== null && this.child.exitCode === null && this.child.signalCode === null;
  }

  private async answers(): Promise<boolean> {
    if (this.address === '') return false;
    const health = await fetch(`${this.address}/health`).catch(() => null);
    return health?.ok === true;
  }

  /** Keeps the lines of the log, except for the welcome, which contains the credentials. */
  private keep(line: string): void {
    this.address = /^Mooring listens on (http:\/\/\S+)/.exec(line)?.[1] ?? this.address;
    if (/^ {2}(password|API key)|Bearer|curl/.test(line)) return;
    this.log.write(`${line}\n`);
    this.lastLines.push(line);
    if (this.lastLines.length > LINES_SHOWN) this.lastLines.shift();
  }

  /** Returns the installation's id; null if the service has not started. */
  async instance(): Promise<string | null> {
    const text = await readFile(join(this.dataDir, 'instance-id'), 'utf8').catch(() => null);
    return text?.trim() ?? null;
  }

  /** Sends a request with the first key. `payload` is a JSON value, or a form. */
  async call(method: string, path: string, payload?: unknown, headers: Record<string, string> = {}): Promise<ServiceResponse> {
    const response = await this.fetch(path, {
      method,
      headers: { ...(payload === undefined || payload instanceof FormData ? {} : { 'content-type': 'application/json' }), ...headers },
      ...(payload === undefined ? {} : { body: payload instanceof FormData ? payload : JSON.stringify(payload) }),
    });
    const text = await response.text();
    const isJson = (response.headers.get('content-type') ?? '').includes('json');
    return { status: response.status, headers: response.headers, body: isJson && text !== '' ? JSON.parse(text) : text };
  }

  /** Sends a request, and returns its response with an unread body. */
  fetch(path: string, options: RequestInit = {}): Promise<Response> {
    const signal = AbortSignal.any([this.signal, AbortSignal.timeout(CALL_MS)]);
    const headers = { ...(options.headers as Record<string, string>), authorization: `Bearer ${this.firstRun.api_key}` };
    return fetch(path.startsWith('http') ? path : `${this.address}${path}`, { ...options, headers, signal });
  }

  /** Stops the service: SIGTERM, and SIGKILL if it does not end in time. */
  async stop(): Promise<void> {
    const { child } = this;
    if (child === null || !this.runs) return;
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
    await ended;
    clearTimeout(timer);
  }

  /** Removes the data folder. */
  async remove(): Promise<void> {
    this.log.end();
    await removeDataDir(this.dataDir);
  }
}
