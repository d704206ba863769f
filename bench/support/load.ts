import { Agent, request } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';

import { rounded } from './figures.ts';

/** The time, in ms, above which a request counts as slow. */
const SLOW_MS = 500;

export interface Callers {
  readers: number;
  writers: number;
  /** The pause between a response and the next request of one reader, in ms; a writer pauses twice as long. */
  pauseMs: number;
}

interface Tally {
  done: number;
  failed: number;
  slow: number;
  times: number[];
}

interface Answered {
  status: number;
  body: string;
}

/** Reads and writes agents over HTTP, each caller on its own connection, until it is stopped. */
export class Load {
  private reads: Tally = empty();
  private writes: Tally = empty();
  /** The number of failures since the last reset, by description, such as `GET 503 read_model_behind`. */
  private failures = new Map<string, number>();
  private acknowledgedCount = 0;
  private running: Promise<unknown> = Promise.resolve();
  private stopped = false;
  private readonly connections = new Agent({ keepAlive: true });

  constructor(
    /** Returns the service for each request: its address changes when it is started again, and there may be several. */
    private readonly target: () => { url: string; api_key: string },
    private readonly agentIds: readonly string[],
    private readonly callers: Callers,
  ) {}

  /** Starts the callers; resolves when they are running. */
  async start(settleMs = 2_000): Promise<void> {
    const readers = Array.from({ length: this.callers.readers }, () =>
      this.goOn(this.callers.pauseMs, (agentId) => this.call(this.reads, 'GET', `/api/v1/agents/${agentId}`)),
    );
    const writers = Array.from({ length: this.callers.writers }, (_, writer) =>
      this.goOn(this.callers.pauseMs * 2, (agentId) =>
        this.call(this.writes, 'PATCH', `/api/v1/agents/${agentId}`, { description: `written by ${writer} at ${Date.now()}` }),
      ),
    );
    this.running = Promise.all([...readers, ...writers]);
    await wait(settleMs);
  }

  reset(): void {
    this.reads = empty();
    this.writes = empty();
    this.failures = new Map();
  }

  async stop(): Promise<void> {
    this.stopped = true;
    await this.running;
    this.connections.destroy();
  }

  /** The number of successful writes since the start, regardless of resets. */
  get acknowledged(): number {
    return this.acknowledgedCount;
  }

  figures() {
    return {
      reads: this.reads.done,
      failed_reads: this.reads.failed,
      reads_over_500_ms: this.reads.slow,
      ...quantiles('read', this.reads),
      writes: this.writes.done,
      failed_writes: this.writes.failed,
      writes_over_500_ms: this.writes.slow,
      ...quantiles('write', this.writes),
      failures: Object.fromEntries(this.failures),
    };
  }

  private async goOn(pauseMs: number, work: (agentId: string) => Promise<void>): Promise<void> {
    while (!this.stopped) {
      await work(this.agentIds[Math.floor(Math.random() * this.agentIds.length)] as string);
      await wait(pauseMs * (0.5 + Math.random()));
    }
  }

  private async call(tally: Tally, method: string, path: string, body?: object): Promise<void> {
    const began = performance.now();
    const answer = await this.answer(method, path, body).catch((error: { code?: string }) => ({
      status: 0,
      body: error.code ?? 'no answer',
    }));
    const ms = performance.now() - began;
    tally.done += 1;
    tally.times.push(ms);
    if (ms > SLOW_MS) tally.slow += 1;
    if (answer.status === 200) {
      if (method !== 'GET') this.acknowledgedCount += 1;
      return;
    }
    tally.failed += 1;
    const kind = `${method} ${answer.status} ${/"code":\s*"(\w+)"/.exec(answer.body)?.[1] ?? answer.body.slice(0, 40)}`;
    this.failures.set(kind, (this.failures.get(kind) ?? 0) + 1);
  }

  private answer(method: string, path: string, body?: object): Promise<Answered> {
    const { url, api_key } = this.target();
    const headers = { authorization: `Bearer ${api_key}`, 'content-type': 'application/json' };
    return new Promise((resolve, reject) => {
      const call = request(`${url}${path}`, { method, headers, agent: this.connections, timeout: 30_000 }, (answer) => {
        let text = '';
        answer.setEncoding('utf8');
        answer.on('data', (chunk: string) => (text += chunk));
        answer.on('end', () => resolve({ status: answer.statusCode ?? 0, body: text }));
        answer.on('error', reject);
      });
      call.on('timeout', () => call.destroy(new Error('timeout')));
      call.on('error', reject);
      call.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }
}

function empty(): Tally {
  return { done: 0, failed: 0, slow: 0, times: [] };
}

function quantiles<Name extends string>(name: Name, { times }: Tally) {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share: number) => rounded(sorted[Math.floor((sorted.length - 1) * share)] ?? NaN);
  const figures = { [`${name}_p50_ms`]: at(0.5), [`${name}_p99_ms`]: at(0.99), [`${name}_max_ms`]: at(1) };
  return figures as Record<`${Name}_${'p50' | 'p99' | 'max'}_ms`, number>;
}
