import { readFile, rm } from 'node:fs/promises';
import { setTimeout as wait } from 'node:timers/promises';

import pg from 'pg';

import { copyIn, copyOut } from '../src/platform/database/copy.ts';
import { NextVersion } from '../test/support/next-version.ts';
import { OutsidePostgres, replicaOptions } from '../test/support/replicas.ts';
import { StartedService } from '../test/support/started-service.ts';
import { until } from '../test/support/until.ts';
import { agentIdOf, eventLines, EVENTS_EACH } from './support/agent-events.ts';
import { Load } from './support/load.ts';

const AGENTS = Number(process.env.BENCH_AGENTS ?? 10_000);
const RAISED = ['agents', 'deployments', 'log_journal'];
const READERS = 50;
const WRITERS = 20;
const PAUSE_MS = 450;
const BASELINE_MS = 5_000;
const SAMPLE = 50;
const PATIENCE_MS = 600_000;

/**
 * The next version of the program, three read models of which are of another version, over 1 000 000 events: one process alone, also killed in the
 * middle; and a replica that is started beside one of the version before, which serves 50 readers and 20 writers.
 */
export async function run(): Promise<object> {
  const database = await OutsidePostgres.start();
  const next = await NextVersion.make(RAISED);
  const bench = new UpgradeBench(database.url, next);
  try {
    return await bench.measure();
  } finally {
    await bench.end();
    await database.stop();
    await next.remove();
  }
}

class UpgradeBench {
  #old!: StartedService;
  #all: StartedService[] = [];
  #agentIds: string[] = [];

  constructor(
    private readonly url: string,
    private readonly next: NextVersion,
  ) {}

  async measure(): Promise<object> {
    this.#old = await this.#start();
    const filled = await this.#seed();
    console.info('filled', filled);
    const bare = await this.#bareCopy();
    const beside = await this.#beside();
    console.info('beside', beside);
    const killed = await this.#killed();
    console.info('killed', killed);
    const alone = await this.#alone();
    console.info('alone', alone);
    const bareAfter = await this.#bareCopy();
    return { events: AGENTS * EVENTS_EACH, raised: RAISED, filled, bare_copies_a_second: [bare, bareAfter], beside, killed, alone };
  }

  async end(): Promise<void> {
    for (const service of this.#all) await service.stop();
    if (this.#all[0] !== undefined) await rm(this.#all[0].dataDir, { recursive: true, force: true });
  }

  async #start(entry?: string): Promise<StartedService> {
    const first = this.#all[0];
    const service = await StartedService.start(
      replicaOptions(this.url, 'local', {
        environment: { MOORING_LOG_LEVEL: 'info' },
        ...(entry === undefined ? {} : { entry }),
        ...(first === undefined ? {} : { dataDir: first.dataDir, caller: first.firstRun }),
      }),
    );
    this.#all.push(service);
    return service;
  }

  async #seed(): Promise<object> {
    const accountId =
      (await this.#query<{ id: string }>(`select substr(stream, 9) as id from es_event where type = 'AccountOpened'`))[0]?.id ?? '';
    await this.#old.stop();
    this.#agentIds = Array.from({ length: AGENTS }, agentIdOf);
    const client = new pg.Client({ connectionString: this.url });
    await client.connect();
    const { rows } = await client.query<{ head: string }>('select max(position) as head from es_event');
    const columns = 'position, stream, version, id, type, schema_version, data, metadata, size, at';
    await copyIn(client, `copy es_event (${columns}) from stdin`, eventLines(this.#agentIds, accountId, Number(rows[0]?.head ?? 0)));
    await client.query('analyze es_event');
    await client.query('checkpoint');
    await client.end();
    // What was appended while no service ran is caught up with.
    const seconds = await this.#ready(() => this.#old.start(), this.#old);
    return { caught_up_in_seconds: seconds, peak_memory_mb: await peakMemory(this.#old) };
  }

  async #beside(): Promise<object> {
    const load = new Load(() => this.#old.firstRun, this.#agentIds, { readers: READERS, writers: WRITERS, pauseMs: PAUSE_MS });
    await load.start();
    load.reset();
    await wait(BASELINE_MS);
    const alone = load.figures();
    load.reset();
    let next!: StartedService;
    const seconds = await this.#ready(async () => (next = await this.#start(this.next.entry)));
    const during = load.figures();
    await load.stop();
    const equal = await this.#sameAnswers(this.#old, next);
    await next.stop();
    return {
      ready_in_seconds: seconds,
      old_alone: alone,
      old_during: during,
      equal_answers: equal,
      peak_memory_mb_old: await peakMemory(this.#old),
    };
  }

  async #killed(): Promise<object> {
    await this.#old.stop();
    await this.#forgetRaised();
    const next = await this.#start(this.next.entry);
    await until(
      'the fold is under way',
      async () => (await notReady(next))?.match(/being filled: [1-9]\d* %/) ?? undefined,
      PATIENCE_MS,
      20,
    );
    await next.kill();
    const seconds = await this.#ready(() => next.start(), next);
    await next.stop();
    return { ready_in_seconds_after_the_kill: seconds };
  }

  async #alone(): Promise<object> {
    const rounds = [];
    for (let round = 0; round < 3; round += 1) {
      await this.#forgetRaised();
      let next!: StartedService;
      const seconds = await this.#ready(async () => (next = await this.#start(this.next.entry)));
      const rates = [...next.output.matchAll(/(\w+) was rebuilt from (\d+) events, (\d+) a second/g)].map(([, name, , rate]) => [
        name,
        Number(rate),
      ]);
      rounds.push({ ready_in_seconds: seconds, rates: Object.fromEntries(rates), peak_memory_mb: await peakMemory(next) });
      await next.stop();
    }
    return { rounds };
  }

  /** As if the next version had never run here. */
  async #forgetRaised(): Promise<void> {
    const rows = await this.#query<{ table_name: string }>(
      `select p.table_name from projections p where exists (select from projections o where o.name = p.name and o.version < p.version)`,
    );
    for (const { table_name } of rows) {
      await this.#query(`drop table "${table_name}"`);
      await this.#query(`delete from projections where table_name = '${table_name}'`);
      await this.#query(`delete from projection_checkpoints where table_name = '${table_name}'`);
    }
  }

  async #ready(start: () => Promise<unknown>, known?: StartedService): Promise<number> {
    const began = performance.now();
    await start();
    const service = known ?? this.#all.at(-1);
    if (service === undefined) throw new Error('nothing was started');
    await until('it is ready', async () => ((await notReady(service)) === null ? true : undefined), PATIENCE_MS, 50);
    return round2((performance.now() - began) / 1_000);
  }

  async #sameAnswers(one: StartedService, other: StartedService): Promise<boolean> {
    for (const agentId of this.#agentIds.slice(0, SAMPLE))
      for (const path of ['', '/deployments']) {
        const answers = await Promise.all([one, other].map((service) => service.call('GET', `/api/v1/agents/${agentId}${path}`)));
        if (JSON.stringify(answers[0]?.body) !== JSON.stringify(answers[1]?.body)) return false;
      }
    return true;
  }

  async #bareCopy(): Promise<number> {
    const client = new pg.Client({ connectionString: this.url });
    await client.connect();
    const began = performance.now();
    let rows = 0;
    const columns = 'position, stream, version, id, type, schema_version, data, metadata, at';
    const text = `copy (select ${columns} from es_event order by position) to stdout (format binary)`;
    for await (const slab of copyOut(client, text)) rows += slab.rows.length - 1;
    await client.end();
    return Math.round((rows / (performance.now() - began)) * 1_000);
  }

  async #query<Row extends pg.QueryResultRow>(text: string): Promise<Row[]> {
    const client = new pg.Client({ connectionString: this.url });
    await client.connect();
    const { rows } = await client.query<Row>(text);
    await client.end();
    return rows;
  }
}

/** Why it is not ready; null where it is. */
async function notReady(service: StartedService): Promise<string | null> {
  const answer = await fetch(`${service.firstRun.url}/ready`);
  const { dependencies } = (await answer.json()) as { dependencies: { detail?: string }[] };
  return answer.status === 200 ? null : dependencies.map(({ detail }) => detail ?? '').join(' ');
}

/** MB, of the service's process since it was started. */
async function peakMemory(service: StartedService): Promise<number> {
  const status = await readFile(`/proc/${service.pid}/status`, 'utf8');
  return Math.round(Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) / 1_024);
}

function round2(value: number): number {
  return Math.round(value * 100) / 100;
}
