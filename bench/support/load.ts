import { Agent, request } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';

/** A read that takes longer counts as slow, ms. */
const SLOW_MS = 500;

export interface Callers {
  readers: number;
  writers: number;
  /** Between an answer and the next request of one reader, ms; a writer pauses twice as long. */
  pauseMs: number;
}

interface Tally {
  done: number;
  failed: number;
  slow: number;
  times: number[];
}

/** Readers and writers of agents over HTTP, each with a connection of its own, going on until they are stopped. */
export class Load {
  #reads: Tally = empty();
  #writes: Tally = empty();
  #running: Promise<unknown> = Promise.resolve();
  #stopped = false;
  readonly #connections = new Agent({ keepAlive: true });

  constructor(
    /** Its address changes when the service is started again. */
    private readonly target: () => { url: string; api_key: string },
    private readonly agentIds: readonly string[],
    private readonly callers: Callers,
  ) {}

  /** Resolves when they are at work. */
  async start(): Promise<void> {
    const readers = Array.from({ length: this.callers.readers }, () =>
      this.#goOn(this.callers.pauseMs, (agentId) => this.#call(this.#reads, 'GET', `/api/v1/agents/${agentId}`)),
    );
    const writers = Array.from({ length: this.callers.writers }, (_, writer) =>
      this.#goOn(this.callers.pauseMs * 2, (agentId) =>
        this.#call(this.#writes, 'PATCH', `/api/v1/agents/${agentId}`, { description: `written by ${writer} at ${Date.now()}` }),
      ),
    );
    this.#running = Promise.all([...readers, ...writers]);
    await wait(2_000);
  }

  reset(): void {
    this.#reads = empty();
    this.#writes = empty();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
    this.#connections.destroy();
  }

  figures(): object {
    const sorted = this.#reads.times.toSorted((a, b) => a - b);
    const at = (share: number) => Math.round(sorted[Math.floor((sorted.length - 1) * share)] ?? NaN);
    return {
      reads: this.#reads.done,
      failed_reads: this.#reads.failed,
      reads_over_500_ms: this.#reads.slow,
      read_p50_ms: at(0.5),
      read_p99_ms: at(0.99),
      read_max_ms: at(1),
      writes: this.#writes.done,
      failed_writes: this.#writes.failed,
    };
  }

  async #goOn(pauseMs: number, work: (agentId: string) => Promise<void>): Promise<void> {
    while (!this.#stopped) {
      await work(this.agentIds[Math.floor(Math.random() * this.agentIds.length)] as string);
      await wait(pauseMs * (0.5 + Math.random()));
    }
  }

  async #call(tally: Tally, method: string, path: string, body?: object): Promise<void> {
    const began = performance.now();
    const status = await this.#status(method, path, body).catch(() => 0);
    const ms = performance.now() - began;
    tally.done += 1;
    tally.times.push(ms);
    if (status !== 200) tally.failed += 1;
    if (ms > SLOW_MS) tally.slow += 1;
  }

  #status(method: string, path: string, body?: object): Promise<number> {
    const headers = { authorization: `Bearer ${this.target().api_key}`, 'content-type': 'application/json' };
    return new Promise((resolve, reject) => {
      const call = request(`${this.target().url}${path}`, { method, headers, agent: this.#connections, timeout: 30_000 }, (answer) => {
        answer.resume().on('end', () => resolve(answer.statusCode ?? 0));
      });
      call.on('error', reject);
      call.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }
}

function empty(): Tally {
  return { done: 0, failed: 0, slow: 0, times: [] };
}
