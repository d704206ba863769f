import { tmpdir } from 'node:os';

import pg from 'pg';
import { v7 as uuidv7 } from 'uuid';

import { eventDefinitions } from '../src/app.module.ts';
import { AuditEntries, type AuditSelection } from '../src/features/history/audit/audit-entries.ts';
import { auditProjection } from '../src/features/history/audit/audit.projection.ts';
import { copyIn } from '../src/postgres/database/copy.ts';
import type { Database } from '../src/postgres/database/database.ts';
import { openDatabase } from '../src/postgres/database/open-database.ts';
import { OutsidePostgres } from '../test/support/outside-postgres.ts';
import { EventCatalogue } from '../src/eventsourcing/event-store/event-catalogue.ts';
import { Intervals } from '../src/kernel/config/intervals.ts';
import { LogTrimmer } from '../src/eventsourcing/event-store/postgres/log-trimmer.ts';
import { PostgresEventStore } from '../src/eventsourcing/event-store/postgres/postgres-event-store.ts';
import { LogPasses } from '../src/eventsourcing/projections/rebuild/log-pass.ts';
import { type Projection, tableOf } from '../src/eventsourcing/projections/projection.ts';
import { writeRows } from '../src/eventsourcing/projections/rebuild/projection-rebuild.ts';
import { createBareStatement, indexStatements } from '../src/eventsourcing/projections/tables/projection-sql.ts';
import { agentIdOf, BEGIN, eventLines, EVENTS_EACH } from './support/agent-events.ts';
import { machineLoad, percentile, rounded } from './support/figures.ts';

/** The numbers of events in the log of output before a trim. */
const LOG_EVENTS = (process.env.BENCH_LOG_EVENTS ?? '2000000,20000000').split(',').map(Number);
const REMOVED = [1_000, 10_000, 100_000];
const STREAMS = 1_000;
const CHUNK = 100_000;
/** The number of sessions that fill the log concurrently. */
const SEEDERS = 3;
/** The time over which the events of output are spread, in seconds. */
const SPAN_SECONDS = 6 * 24 * 3600;
const AUDIT_EVENTS = Number(process.env.BENCH_EVENTS ?? 1_000_000);
const ACCOUNTS = 100;
const FOLD_BYTES = 48 * 1024 * 1024;
const ASKED = 20;
const NEVER_MS = 24 * 3_600_000;
const PAGE = 50;
const COLUMNS = 'position, stream, version, id, type, schema_version, data, metadata, size, at';
const STREAM_OF = (n: string) => `'log-0190aaaa-0000-7000-8000-' || lpad((${n})::text, 12, '0')`;

const parts: Record<string, (bench: RetentionBench) => Promise<object>> = {
  trim: (bench) => bench.trim(),
  audit: (bench) => bench.audit(),
};

/**
 * Measures, as `trim`, the cost of removing old output from a log of 2 000 000 and of 20 000 000 events, and, as `audit`, the size of the
 * audit of 1 000 000 events and what its filters read.
 */
export async function run(part?: string): Promise<object> {
  const asked = part === undefined ? Object.keys(parts) : [part];
  const figures: Record<string, object> = {};
  for (const name of asked) {
    const measure = parts[name];
    if (measure === undefined) throw new Error(`retention has no part ${name}; there are ${Object.keys(parts).join(', ')}`);
    const bench = await RetentionBench.start();
    const onSignal = () => void bench.end().finally(() => process.exit(1));
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, onSignal);
    try {
      figures[name] = { ...(await measure(bench)), load_of_the_machine: machineLoad() };
    } finally {
      for (const signal of ['SIGINT', 'SIGTERM'] as const) process.removeListener(signal, onSignal);
      await bench.end();
    }
    console.info(name, JSON.stringify(figures[name], null, 1));
  }
  return figures;
}

interface Counts extends pg.QueryResultRow {
  blocks: number;
  seq_scans: number;
}

class RetentionBench {
  /** The event store, opened only by the parts that need it, because it trims by itself. */
  private store: PostgresEventStore | null = null;
  /** The trimmer, which trims only on request. */
  private readonly trimmer: LogTrimmer;
  private statements = 0;

  private constructor(
    private readonly server: OutsidePostgres,
    private readonly database: Database,
    private readonly owner: pg.Client,
  ) {
    this.trimmer = new LogTrimmer(database.pool, NEVER_MS);
  }

  static async start(): Promise<RetentionBench> {
    const server = await OutsidePostgres.start();
    const owner = new pg.Client({ connectionString: server.url });
    owner.on('error', () => undefined);
    const database = await openDatabase({ url: server.url });
    await owner.connect();
    return new RetentionBench(server, database, owner);
  }

  async end(): Promise<void> {
    await this.trimmer.stop();
    await this.store?.close().catch(() => undefined);
    await this.owner.end();
    await this.database.close();
    await this.server.stop();
  }

  async trim(): Promise<object> {
    // Each statement of a trim uses a connection of its own.
    this.database.pool.on('acquire', () => (this.statements += 1));
    await this.owner.query('alter table es_log_event set (autovacuum_enabled = false)');
    const sizes = [];
    let standing = 0;
    for (const events of LOG_EVENTS) {
      const began = performance.now();
      await this.seed(standing, events);
      standing = events;
      const seeded = { events, seeded_in_seconds: rounded((performance.now() - began) / 1_000, 0), mb: await this.sizeOf('es_log_event') };
      console.info('seeded', seeded);
      // The first trim after the statistics have changed is not measured, because it is planned again.
      await this.measured(events, 0);
      const trims = [await this.measured(events, 0)];
      for (const removed of REMOVED) trims.push(await this.measured(events, removed));
      sizes.push({ ...seeded, trims });
    }
    return { sizes };
  }

  /** Measures a trim that finds `wanted` events too old. */
  private async measured(events: number, wanted: number): Promise<object> {
    if (wanted > 0) await this.ageOldest(events, wanted);
    const before = await this.counts();
    this.statements = 0;
    const began = performance.now();
    const removed = await this.trimmer.trim();
    const ms = performance.now() - began;
    const statements = this.statements;
    const after = await this.counts();
    const blocks = after.blocks - before.blocks;
    const trim = {
      removed,
      ms: rounded(ms, 1),
      us_each: removed === 0 ? null : rounded((ms * 1_000) / removed, 1),
      statements,
      blocks,
      blocks_each: removed === 0 ? null : rounded(blocks / removed, 1),
      whole_scans: after.seq_scans - before.seq_scans,
    };
    console.info('trim', trim);
    return trim;
  }

  /** Writes the events oldest first, with alternating streams. The indexes are created after the rows. */
  private async seed(from: number, to: number): Promise<void> {
    await this.owner.query('alter table es_log_event drop constraint es_log_event_pkey, drop constraint es_log_event_stream_version_key');
    const data = JSON.stringify({ lines: [{ t: '2026-01-01T00:00:00.000Z', l: 'info', m: 'x'.repeat(60) }], total: 1 });
    // Rows that were trimmed before are written again, with the times of a log of the new length.
    await this.owner.query('alter table es_log_event disable trigger all');
    if (from > 0) await this.owner.query('truncate es_log_event');
    const sessions = new pg.Pool({ connectionString: this.server.url, max: SEEDERS });
    let next = 0;
    const seeder = async () => {
      for (let done = next; done < to; done = next) {
        next += CHUNK;
        await sessions.query(
          `insert into es_log_event (${COLUMNS})
           select n, ${STREAM_OF(`n % ${STREAMS}`)}, (n - 1) / ${STREAMS}, gen_random_uuid(), 'LogLinesCaptured', 1,
                  $1::json, '{}', $2, now() - (1 - n::float8 / ${to}) * interval '${SPAN_SECONDS} seconds'
             from generate_series($3::bigint, $4::bigint) n`,
          [data, data.length + 2, done + 1, Math.min(done + CHUNK, to)],
        );
      }
    };
    await Promise.all(Array.from({ length: SEEDERS }, seeder));
    const keys = { es_log_event_pkey: '(position)', es_log_event_stream_version_key: '(stream, version)' };
    await Promise.all(Object.entries(keys).map(([name, key]) => sessions.query(`create unique index ${name} on es_log_event ${key}`)));
    await sessions.end();
    await this.owner.query(
      `alter table es_log_event add primary key using index es_log_event_pkey, add unique using index es_log_event_stream_version_key`,
    );
    await this.owner.query('alter table es_log_event enable trigger all');
    await this.owner.query('vacuum analyze es_log_event');
    await this.owner.query('delete from es_log_retention');
    await this.keep(SPAN_SECONDS + 24 * 3600);
    await this.owner.query('checkpoint');
  }

  /** Changes the given number of the oldest events so that they are too old. */
  private async ageOldest(events: number, wanted: number): Promise<void> {
    const { rows } = await this.owner.query<{ first: string }>('select position as first from es_log_event order by position limit 1');
    const position = Number(rows[0]?.first) + wanted;
    const { rows: found } = await this.owner.query<{ age: number }>(
      'select extract(epoch from clock_timestamp() - at)::float8 as age from es_log_event where position >= $1 order by position limit 1',
      [Math.min(position, events)],
    );
    await this.keep(Math.ceil(found[0]?.age ?? 0));
  }

  private async keep(seconds: number): Promise<void> {
    await this.owner.query(
      `insert into es_stream_meta as m (stream, max_age_seconds) select ${STREAM_OF('n')}, $1 from generate_series(0, ${STREAMS - 1}) n
       on conflict (stream) do update set max_age_seconds = excluded.max_age_seconds`,
      [seconds],
    );
  }

  /** Returns the blocks of the table and its indexes that were read so far, and the number of scans of the whole table. */
  private async counts(): Promise<Counts> {
    // A session reports its counts at the end of the first transaction at least a second after its last report.
    await new Promise((resolve) => setTimeout(resolve, 1_200));
    await Promise.all(Array.from({ length: 10 }, () => this.database.query('select 1')));
    const { rows } = await this.owner.query<Counts>(
      `select (heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read)::float8 as blocks, s.seq_scan::float8 as seq_scans
         from pg_statio_user_tables join pg_stat_user_tables s using (relid) where relid = 'es_log_event'::regclass`,
    );
    return rows[0] as Counts;
  }

  async audit(): Promise<object> {
    const store = (this.store = new PostgresEventStore(this.database, new EventCatalogue(eventDefinitions)));
    const accounts = Array.from({ length: ACCOUNTS }, () => ({ accountId: uuidv7(), actorId: uuidv7() }));
    const agentIds = await this.seedAgents(accounts);
    const projection = auditProjection as unknown as Projection;
    const table = tableOf(projection);
    const began = performance.now();
    await this.fill(store, projection, table);
    const seconds = rounded((performance.now() - began) / 1_000);
    const { rows: indexes } = await this.owner.query<{ name: string; mb: number }>(
      `select indexrelid::regclass::text as name, round(pg_relation_size(indexrelid) / 1e6, 1)::float8 as mb from pg_index where indrelid = $1::regclass`,
      [table],
    );
    const size = {
      events: AUDIT_EVENTS,
      filled_in_seconds: seconds,
      audit_mb_per_million: rounded(((await this.sizeOf(table)) * 1e6) / AUDIT_EVENTS, 0),
      log_mb: await this.sizeOf('es_event'),
      indexes_mb: Object.fromEntries(indexes.map(({ name, mb }) => [name, mb])),
    };
    console.info('audit', size);
    const [one] = accounts.slice(ACCOUNTS / 2);
    return { ...size, filters: await this.filters(store, one?.accountId ?? '', one?.actorId ?? '', agentIds.at(ACCOUNTS / 2) ?? '') };
  }

  /** Writes the agents' events, and returns one agent of each account. */
  private async seedAgents(accounts: { accountId: string; actorId: string }[]): Promise<string[]> {
    const perAccount = AUDIT_EVENTS / EVENTS_EACH / ACCOUNTS;
    const firsts: string[] = [];
    for (const [index, { accountId, actorId }] of accounts.entries()) {
      const agentIds = Array.from({ length: perAccount }, agentIdOf);
      firsts.push(agentIds[0] as string);
      const lines = eventLines(agentIds, accountId, index * perAccount * EVENTS_EACH, actorId);
      await copyIn(this.owner, `copy es_event (${COLUMNS}) from stdin`, lines);
    }
    await this.owner.query('analyze es_event');
    return firsts;
  }

  /** Fills the table as a rebuild does. */
  private async fill(store: PostgresEventStore, projection: Projection, table: string): Promise<void> {
    const passes = new LogPasses(store, { memoryBytes: FOLD_BYTES, directory: tmpdir() }, new Intervals().foldGatherMs);
    const { signal } = new AbortController();
    const client = new pg.Client({ connectionString: this.server.url });
    await client.connect();
    await this.database.query(createBareStatement(projection.table, table));
    await passes.fold({
      projection,
      end: null,
      signal,
      onBegin: () => Promise.resolve(),
      onProgress: () => Promise.resolve(),
      add: (text) => writeRows(client, projection, table, [text], signal),
      write: (fold) => writeRows(client, projection, table, fold.text(), signal),
    });
    await client.end();
    for (const statement of indexStatements(projection.table, table)) await this.database.query(statement);
    await this.owner.query(`vacuum analyze ${table}`);
  }

  /** Measures pages of the audit by each filter: the time of one, and what the plan of its statement reads. */
  private async filters(store: PostgresEventStore, accountId: string, actor: string, agentId: string): Promise<object> {
    const none: AuditSelection = {
      accountId: null,
      subjectId: null,
      types: null,
      actor: null,
      since: null,
      until: null,
      newestFirst: true,
    };
    const since = new Date(BEGIN + AUDIT_EVENTS * 3 * 0.5).toISOString();
    const until = new Date(Date.parse(since) + 60_000).toISOString();
    const selections: Record<string, Partial<AuditSelection>> = {
      type: { types: ['DeploymentRequested'] },
      'type, oldest first': { types: ['DeploymentRequested'], newestFirst: false },
      'type that does not occur': { types: ['VariableSet'] },
      actor: { actor },
      time: { since, until },
      account: { accountId },
      agent: { subjectId: agentId },
      'type and actor': { types: ['DeploymentRequested'], actor },
      'type, actor and time': { types: ['AgentStopped'], actor, since, until },
      'account, type and time': { accountId, types: ['AgentStopped'], since, until },
    };
    const asked: { text: string; values: unknown[] }[] = [];
    const query = this.database.query.bind(this.database);
    this.database.query = (text, values = []) => {
      asked.push({ text, values });
      return query(text, values);
    };
    const entries = new AuditEntries(this.database, store);
    const figures: Record<string, object> = {};
    for (const [name, selection] of Object.entries(selections)) {
      const times: number[] = [];
      let found = 0;
      for (let time = 0; time < ASKED; time += 1) {
        asked.length = 0;
        const began = performance.now();
        found = 0;
        for await (const _ of entries.list({ ...none, ...selection }, null, PAGE)) found += 1;
        times.push(performance.now() - began);
      }
      const last = asked.at(-1) as { text: string; values: unknown[] };
      figures[name] = { found, p50_ms: percentile(times, 0.5), statements: asked.length, ...(await this.planOf(last.text, last.values)) };
      console.info(name, figures[name]);
    }
    return figures;
  }

  private async planOf(text: string, values: unknown[]): Promise<object> {
    const { rows } = await this.owner.query<{ 'QUERY PLAN': [{ Plan: Plan }] }>(`explain (analyze, buffers, format json) ${text}`, values);
    const plan = rows[0]?.['QUERY PLAN'][0].Plan as Plan;
    const reads = new Set<string>();
    const look = (node: Plan) => {
      if (node['Relation Name'] !== undefined) reads.add([node['Node Type'], node['Index Name']].filter(Boolean).join(' '));
      else if (node['Index Name'] !== undefined) reads.add(`${node['Node Type']} ${node['Index Name']}`);
      node.Plans?.forEach(look);
    };
    look(plan);
    return { reads: [...reads], blocks: plan['Shared Hit Blocks'] + plan['Shared Read Blocks'] };
  }

  private async sizeOf(table: string): Promise<number> {
    const { rows } = await this.owner.query<{ mb: number }>('select round(pg_total_relation_size($1::regclass) / 1e6)::float8 as mb', [
      table,
    ]);
    return rows[0]?.mb ?? NaN;
  }
}

interface Plan {
  'Node Type': string;
  'Relation Name'?: string;
  'Index Name'?: string;
  'Shared Hit Blocks': number;
  'Shared Read Blocks': number;
  Plans?: Plan[];
}
