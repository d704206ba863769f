import { setTimeout as wait } from 'node:timers/promises';

import pg from 'pg';

import { copyIn, copyOut } from '../src/postgres/database/copy.ts';
import { NextVersion } from '../test/support/next-version.ts';
import { removeDataDir } from '../test/support/data-dir.ts';
import { OutsidePostgres } from '../test/support/outside-postgres.ts';
import { replicaOptions } from '../test/support/replicas.ts';
import { StartedService } from '../test/support/started-service.ts';
import { until } from '../test/support/until.ts';
import { agentIdOf, eventLines, EVENTS_EACH } from './support/agent-events.ts';
import { cpuMs, machineLoad, memoryMb, rounded } from './support/figures.ts';
import { Load } from './support/load.ts';

const AGENTS = Number(process.env.BENCH_AGENTS ?? 10_000);
const RAISED = ['agents', 'deployments', 'log_journal'];
const READERS = 50;
const WRITERS = 20;
const PAUSE_MS = 450;
const BASELINE_MS = 5_000;
const SAMPLE = 50;
const PATIENCE_MS = 600_000;

const parts: Record<string, (bench: UpgradeBench) => Promise<object>> = {
  behind: () => Promise.resolve({}),
  beside: (bench) => bench.beside(false),
  'beside-killed': (bench) => bench.beside(true),
  alone: (bench) => bench.alone(),
  'alone-killed': (bench) => bench.aloneKilled(),
};

/**
 * Measures upgrades over 1 000 000 events to a program with the next version of three read models. `behind`, which the other parts run
 * first too, starts a program whose read models exist but contain none of the events. `beside` starts it as a replica next to one of the
 * previous version, with 50 readers and 20 writers; `alone` starts it alone; the parts with `killed` in their names kill it in the middle.
 */
export async function run(part?: string): Promise<object> {
  const asked = part === undefined ? Object.keys(parts) : [part];
  const figures: Record<string, object> = {};
  for (const name of asked) {
    const measure = parts[name];
    if (measure === undefined) throw new Error(`upgrade has no part ${name}; there are ${Object.keys(parts).join(', ')}`);
    const database = await OutsidePostgres.start();
    const next = await NextVersion.make(RAISED);
    const bench = new UpgradeBench(database.url, next);
    const clearUp = async () => {
      await bench.end();
      await database.stop();
      await next.remove();
    };
    const onSignal = () => void clearUp().finally(() => process.exit(1));
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, onSignal);
    try {
      await bench.prepare();
      figures[name] = { ...bench.prepared, ...(await measure(bench)), load_of_the_machine: machineLoad() };
    } finally {
      for (const signal of ['SIGINT', 'SIGTERM'] as const) process.removeListener(signal, onSignal);
      await clearUp();
    }
    console.info(name, JSON.stringify(figures[name], null, 1));
  }
  return { events: AGENTS * EVENTS_EACH, raised: RAISED, ...figures };
}

class UpgradeBench {
  prepared: object = {};
  private old!: StartedService;
  private all: StartedService[] = [];
  private agentIds: string[] = [];
  /** The tables of the older program's read models. */
  private tables: string[] = [];

  constructor(
    private readonly url: string,
    private readonly next: NextVersion,
  ) {}

  /** Fills the log; the read models of the older program then catch up with it. */
  async prepare(): Promise<void> {
    this.old = await this.start();
    await this.seed();
    const before = await this.bareCopy();
    // The events were appended while no service ran.
    const began = performance.now();
    await this.old.start();
    await this.whenReady(this.old);
    this.tables = (await this.query<{ table_name: string }>('select table_name from projections')).map(({ table_name }) => table_name);
    const caught_up_in_seconds = since(began);
    this.prepared = { bare_copy_a_second: before, caught_up_in_seconds, caught_up: figuresOf(this.old) };
    console.info('prepared', this.prepared);
  }

  async end(): Promise<void> {
    for (const service of this.all) await service.stop();
    if (this.all[0] !== undefined) await removeDataDir(this.all[0].dataDir);
  }

  /** Runs the next program next to the older one, undisturbed or killed halfway, and then both. */
  async beside(isKilled: boolean): Promise<object> {
    const targets = [this.old];
    let turn = 0;
    const target = () => (targets[(turn += 1) % targets.length] as StartedService).firstRun;
    const load = new Load(target, this.agentIds, { readers: READERS, writers: WRITERS, pauseMs: PAUSE_MS });
    const during = async (name: string, work: () => Promise<unknown>) => {
      load.reset();
      await work();
      const figures = load.figures();
      console.info(name, figures);
      return figures;
    };
    await load.start();
    const olderAlone = await during('the older one alone', () => wait(BASELINE_MS));
    let seconds = NaN;
    let next!: StartedService;
    const filling = await during('filling', async () => {
      let began = performance.now();
      next = await this.start(this.next.entry);
      if (isKilled) {
        await this.whenUnderWay(next);
        await next.kill();
        began = performance.now();
        await next.start();
      }
      await this.whenReady(next);
      seconds = since(began);
    });
    targets.push(next);
    const both = await during('both serving', () => wait(BASELINE_MS));
    await load.stop();
    return {
      ready_in_seconds: seconds,
      older_alone: olderAlone,
      while_it_fills: filling,
      both_serving: both,
      acknowledged_and_not_in_the_log: load.acknowledged - (await this.configured()),
      next: figuresOf(next),
      answers: await this.compare([this.old, next]),
    };
  }

  /** Runs the next program alone: without callers, and with writers that do not wait until it is ready. */
  async alone(): Promise<object> {
    const quiet = await this.round(() => this.start(this.next.entry));
    const next = this.all.at(-1) as StartedService;
    const written = await this.round(async () => {
      await next.start();
      return next;
    }, WRITERS);
    return { quiet, written };
  }

  /** Runs the next program alone and kills it halfway. Its next start is measured. */
  async aloneKilled(): Promise<object> {
    const killed = await this.round(async () => {
      const next = await this.start(this.next.entry);
      await this.whenUnderWay(next);
      await next.kill();
      return next;
    }, WRITERS);
    return { killed };
  }

  /**
   * Measures one start as if the next version had never run here. If `start` returns a service that has ended, it was killed halfway, and
   * its next start is measured.
   */
  private async round(start: () => Promise<StartedService>, writers = 0): Promise<object> {
    for (const service of this.all) await service.stop();
    await this.forgetRaised();
    let began = performance.now();
    const service = await start();
    if (!service.running) {
      began = performance.now();
      await service.start();
    }
    const before = await this.configured();
    const load = new Load(() => service.firstRun, this.agentIds, { readers: 0, writers, pauseMs: PAUSE_MS });
    await load.start(0);
    await this.whenReady(service);
    const seconds = since(began);
    await load.stop();
    const round = {
      ready_in_seconds: seconds,
      ...figuresOf(service),
      ...(writers === 0
        ? {}
        : { ...load.figures(), appended_and_not_acknowledged: (await this.configured()) - before - load.acknowledged }),
      answers: await this.compare([service]),
    };
    console.info('round', round);
    return round;
  }

  private async start(entry?: string): Promise<StartedService> {
    const first = this.all[0];
    const service = await StartedService.start(
      replicaOptions(this.url, 'local', {
        environment: { MOORING_LOG_LEVEL: 'info' },
        ...(entry === undefined ? {} : { entry }),
        ...(first === undefined ? {} : { dataDir: first.dataDir, caller: first.firstRun }),
      }),
    );
    this.all.push(service);
    return service;
  }

  private async seed(): Promise<void> {
    const accountId =
      (await this.query<{ id: string }>(`select substr(stream, 9) as id from es_event where type = 'AccountOpened'`))[0]?.id ?? '';
    await this.old.stop();
    this.agentIds = Array.from({ length: AGENTS }, agentIdOf);
    const client = new pg.Client({ connectionString: this.url });
    await client.connect();
    const { rows } = await client.query<{ head: string }>('select max(position) as head from es_event');
    const columns = 'position, stream, version, id, type, schema_version, data, metadata, size, at';
    await copyIn(client, `copy es_event (${columns}) from stdin`, eventLines(this.agentIds, accountId, Number(rows[0]?.head ?? 0)));
    await client.query('analyze es_event');
    await client.query('checkpoint');
    await client.end();
  }

  /**
   * Deletes the read models of the next version, as if it had never run here. The rows of the older version may be deleted by then, because
   * no program has used them for a minute.
   */
  private async forgetRaised(): Promise<void> {
    const rows = await this.query<{ table_name: string }>('select table_name from projections');
    for (const { table_name } of rows) {
      if (this.tables.includes(table_name)) continue;
      await this.query(`drop table "${table_name}"`);
      await this.query(`delete from projections where table_name = '${table_name}'`);
      await this.query(`delete from projection_checkpoints where table_name = '${table_name}'`);
    }
  }

  private async whenReady(service: StartedService): Promise<void> {
    await until('it is ready', async () => ((await notReady(service)) === null ? true : undefined), {
      timeoutMs: PATIENCE_MS,
      everyMs: 50,
    });
  }

  /** Waits until the fold is at 30 % or more. */
  private async whenUnderWay(service: StartedService): Promise<void> {
    const underWay = async () => {
      const reason = await notReady(service);
      if (reason === null) throw new Error('the fold was over before it could be disturbed: more events are needed');
      return /being filled: [3-9]\d %/.test(reason) || undefined;
    };
    await until('the fold is under way', underWay, { timeoutMs: PATIENCE_MS, everyMs: 20 });
  }

  /** Returns the number of descriptions that were written, from the log. */
  private async configured(): Promise<number> {
    const rows = await this.query<{ count: number }>(`select count(*)::int as count from es_event where type = 'AgentConfigured'`);
    return rows[0]?.count ?? NaN;
  }

  /** Returns whether all services answer alike, and for each the number of rows of its raised read models that differ from a fresh fold. */
  private async compare(services: StartedService[]): Promise<object> {
    let compared = 0;
    let different = 0;
    for (const agentId of this.agentIds.slice(0, SAMPLE))
      for (const path of ['', '/deployments']) {
        const answers = await Promise.all(services.map((service) => service.call('GET', `/api/v1/agents/${agentId}${path}`)));
        const texts = answers.map(({ status, body }) => `${status} ${JSON.stringify(body)}`);
        compared += 1;
        if (new Set(texts).size !== 1 || !texts[0]?.startsWith('200')) different += 1;
      }
    const verified = [];
    for (const service of services) verified.push(await this.verify(service));
    return { compared, different, verified };
  }

  private async verify(service: StartedService): Promise<object> {
    const { email, password } = service.firstRun;
    const { body } = await service.call('POST', '/api/auth/login', { email, password });
    const headers = { authorization: `Bearer ${body.session_token}` };
    const verified: Record<string, string> = {};
    for (const name of RAISED) {
      const answer = await service.call('POST', `/api/admin/projections/${name}/verify`, undefined, headers);
      verified[name] =
        answer.status === 200 ? `${answer.body.rows} rows, ${answer.body.equal ? 'equal' : 'different'}` : `${answer.status}`;
    }
    return verified;
  }

  private async bareCopy(): Promise<number> {
    const client = new pg.Client({ connectionString: this.url });
    await client.connect();
    const began = performance.now();
    let rows = 0;
    const columns = 'position, stream, version, id, type, schema_version, data, metadata, at';
    const text = `copy (select ${columns} from es_event order by position) to stdout (format binary)`;
    for await (const slab of copyOut(client, text)) rows += slab.starts.length;
    await client.end();
    return Math.round((rows / (performance.now() - began)) * 1_000);
  }

  private async query<Row extends pg.QueryResultRow>(text: string): Promise<Row[]> {
    const client = new pg.Client({ connectionString: this.url });
    await client.connect();
    const { rows } = await client.query<Row>(text);
    await client.end();
    return rows;
  }
}

/** Returns the events a second of the folds since the start of the program, its processor time and its memory. */
function figuresOf(service: StartedService): object {
  const rates = [...service.output.matchAll(/(\w+) was rebuilt from (\d+) events, (\d+) a second/g)].map(([, name, , rate]) => [
    name,
    Number(rate),
  ]);
  return { rates: Object.fromEntries(rates), cpu_seconds: rounded(cpuMs(service.pid) / 1_000), memory_mb: memoryMb(service.pid) };
}

/** Returns the reason why the service is not ready, or null if it is. */
async function notReady(service: StartedService): Promise<string | null> {
  const answer = await fetch(`${service.firstRun.url}/ready`);
  const { dependencies } = (await answer.json()) as { dependencies: { detail?: string }[] };
  return answer.status === 200 ? null : dependencies.map(({ detail }) => detail ?? '').join(' ');
}

function since(began: number): number {
  return rounded((performance.now() - began) / 1_000);
}
