import { readFile } from 'node:fs/promises';
import { setTimeout as wait } from 'node:timers/promises';

import pg from 'pg';

import { copyIn, copyOut } from '../src/postgres/database/copy.ts';
import { removeDataDir } from '../test/support/data-dir.ts';
import { OutsidePostgres } from '../test/support/outside-postgres.ts';
import { StartedService } from '../test/support/started-service.ts';
import { until } from '../test/support/until.ts';
import { EVENTS_EACH, agentIdOf, eventLines } from './support/agent-events.ts';
import { Load } from './support/load.ts';
import { agentsProjection } from '../src/features/agents/services.ts';
import { tableOf } from '../src/eventsourcing/projections/projection.ts';

const AGENTS = Number(process.env.BENCH_AGENTS ?? 10_000);
const READERS = 50;
const WRITERS = 20;
/**
 * The pauses between the requests of one caller: with the first, all callers send about 120 requests a second; with the second, as many as
 * the service's thread can answer.
 */
const STEADY_PAUSE_MS = 450;
const BUSY_PAUSE_MS = 50;
const ROUNDS = 3;
const BASELINE_MS = 5_000;
const PATIENCE_MS = 600_000;

/** Measures a rebuild of the agents' read model from 1,000,000 events with 50 readers and 20 writers, and one that is killed halfway. */
export async function run(): Promise<object> {
  const server = await OutsidePostgres.start();
  const service = await StartedService.start({ runtime: 'local', environment: { DATABASE_URL: server.url, MOORING_LOG_LEVEL: 'info' } });
  try {
    const bench = new RebuildBench(service, server.url);
    return await bench.measure();
  } finally {
    await service.stop();
    await removeDataDir(service.dataDir);
    await server.stop();
  }
}

class RebuildBench {
  private session = '';
  private agentIds: string[] = [];

  constructor(
    private readonly service: StartedService,
    private readonly url: string,
  ) {}

  async measure(): Promise<object> {
    await this.signIn();
    const filled = await this.seed();
    console.info('filled', filled);
    const quiet = await this.againstBare();
    const steady = await this.underLoad(STEADY_PAUSE_MS);
    const busy = await this.underLoad(BUSY_PAUSE_MS, () => this.killed());
    const figures = {
      events: AGENTS * EVENTS_EACH,
      ...filled,
      quiet,
      steady,
      busy,
    };
    return figures;
  }

  /** Rebuilds while callers send requests. */
  private async underLoad(pauseMs: number, then: () => Promise<object> = () => Promise.resolve({})): Promise<object> {
    const load = new Load(() => this.service.firstRun, this.agentIds, { readers: READERS, writers: WRITERS, pauseMs });
    await load.start();
    load.reset();
    await wait(BASELINE_MS);
    const alone = load.figures();
    const rounds = await this.againstBare(
      () => load.reset(),
      () => load.figures(),
    );
    const figures = { alone, rounds, peak_memory_mb: await this.peakMemory(), ...(await then()) };
    await load.stop();
    return figures;
  }

  /** Fills the log by COPY, as the database's owner, and then deletes the content of the read models, so that they are built from the log. */
  private async seed(): Promise<object> {
    const { body: accounts } = await this.admin('GET', '/api/admin/accounts');
    const accountId = accounts[0].account_id as string;
    await this.service.stop();
    const client = new pg.Client({ connectionString: this.url });
    await client.connect();
    this.agentIds = Array.from({ length: AGENTS }, agentIdOf);
    const { rows } = await client.query<{ head: string }>('select max(position) as head from es_event');
    const columns = 'position, stream, version, id, type, schema_version, data, metadata, size, at';
    await copyIn(client, `copy es_event (${columns}) from stdin`, eventLines(this.agentIds, accountId, Number(rows[0]?.head ?? 0)));
    await client.query('analyze es_event');
    await client.query('checkpoint');
    await client.query('delete from projections');
    await client.end();
    const began = performance.now();
    await this.service.start();
    await until('the read models are filled', () => this.isReady(), { timeoutMs: PATIENCE_MS, everyMs: 250 });
    await this.signIn();
    return {
      all_filled_in_seconds: round2((performance.now() - began) / 1_000),
      filled: this.rates(),
      peak_memory_when_filled_mb: await this.peakMemory(),
    };
  }

  /** Copies the same rows out, and only counts them; returns the rate. */
  private async bareCopy(): Promise<number> {
    const client = new pg.Client({ connectionString: this.url });
    await client.connect();
    const columns = 'position, stream, version, id, type, schema_version, data, metadata, at';
    const text = `copy (select ${columns} from es_event where split_part(stream, '-', 1) = 'agent' order by position) to stdout (format binary)`;
    const began = performance.now();
    let rows = 0;
    for await (const slab of copyOut(client, text)) rows += slab.starts.length;
    const rate = Math.round((rows / (performance.now() - began)) * 1_000);
    await client.end();
    return rate;
  }

  /** Alternates a bare copy and a rebuild, so that both see the same machine. */
  private async againstBare(begin: () => void = () => undefined, end: () => object = () => ({})): Promise<object> {
    const rounds = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const bare = await this.bareCopy();
      begin();
      const { rate, seconds } = await this.rebuild();
      const during = end();
      const { body } = await this.admin('POST', '/api/admin/projections/agents/verify');
      const figures = { bare_copy: bare, rebuild: rate, ratio: round2(rate / bare), seconds_in_all: seconds, ...during, equal: body.equal };
      console.info('round', figures);
      rounds.push(figures);
    }
    return rounds;
  }

  private async rebuild(): Promise<{ rate: number; seconds: number }> {
    const began = performance.now();
    const known = this.rates().agents?.length ?? 0;
    await this.admin('POST', '/api/admin/projections/agents/rebuild');
    await until('the rebuild is over', () => (this.rates().agents?.length ?? 0) > known || undefined, {
      timeoutMs: PATIENCE_MS,
      everyMs: 50,
    });
    return { rate: this.rates().agents?.at(-1) ?? NaN, seconds: round2((performance.now() - began) / 1_000) };
  }

  private async killed(): Promise<object> {
    const { body } = await this.admin('POST', '/api/admin/projections/agents/rebuild');
    const progress = await until(
      'the rebuild is half-way',
      async () => {
        const rebuild = await this.underWay();
        return rebuild !== null && rebuild.progress > 0.3 ? (rebuild.progress as number) : undefined;
      },
      { timeoutMs: PATIENCE_MS, everyMs: 20 },
    );
    await this.service.kill();
    const began = performance.now();
    await this.service.start();
    const done = await until('it ends by itself', () => this.outcome(body.rebuild_id), { timeoutMs: PATIENCE_MS, everyMs: 100 });
    const verified = await this.admin('POST', '/api/admin/projections/agents/verify');
    return {
      killed_at_progress: progress,
      after_kill: done,
      after_kill_seconds: round2((performance.now() - began) / 1_000),
      after_kill_equal: verified.body.equal,
    };
  }

  private async underWay() {
    const { body } = await this.admin('GET', '/api/admin/projections');
    return body.find(({ name }: { name: string }) => name === 'agents').rebuild;
  }

  private async outcome(rebuildId: string): Promise<string | undefined> {
    const { body } = await this.admin('GET', `/api/admin/events?stream=projection-${tableOf(agentsProjection)}&limit=200`);
    const about = body.filter(({ data }: { data: { rebuild_id: string } }) => data.rebuild_id === rebuildId);
    return about.length > 1 ? about.at(-1).type : undefined;
  }

  private async isReady(): Promise<true | undefined> {
    const { dependencies } = (await (await fetch(`${this.service.firstRun.url}/ready`)).json()) as { dependencies: { status: string }[] };
    return dependencies.every(({ status }) => status === 'ok') || undefined;
  }

  /** Returns the events a second of every rebuild so far, by projection, from the service's log. */
  private rates(): Record<string, number[]> {
    const rates: Record<string, number[]> = {};
    for (const [, name = '', rate] of this.service.output.matchAll(/(\w+) was rebuilt from \d+ events, (\d+) a second/g))
      (rates[name] ??= []).push(Number(rate));
    return rates;
  }

  /** Returns the peak memory of the service's process since its start, in MB. */
  private async peakMemory(): Promise<number> {
    const status = await readFile(`/proc/${this.service.pid}/status`, 'utf8');
    return Math.round(Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) / 1_024);
  }

  private async signIn(): Promise<void> {
    const { email, password } = this.service.firstRun;
    const { body } = await this.service.call('POST', '/api/auth/login', { email, password });
    this.session = body.session_token;
  }

  private async admin(method: string, path: string) {
    const answer = await this.service.call(method, path, undefined, { authorization: `Bearer ${this.session}` });
    if (answer.status >= 400) throw new Error(`${method} ${path} answered ${answer.status}: ${JSON.stringify(answer.body)}`);
    return answer;
  }
}

function round2(value: number): number {
  return Math.round(value * 100) / 100;
}
