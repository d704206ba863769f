import { span } from '../../test/support/until.ts';
import { cpuMs, rounded } from './figures.ts';
import type { ScaleBed } from './scale-bed.ts';

/** The longest delay, in ms, with which an idle connection reports its counts. */
const COUNTS_LATER_MS = 11_000;

interface Counts {
  transactions: number;
  /** The number of rows of the log that were read. */
  rows: number;
}

export interface Spent<Result> extends Counts {
  result: Result;
  ms: number;
  /** The processor time of the service, in ms. */
  cpu: number;
  /** The time, in ms, over which the counts were taken. */
  countedMs: number;
}

/** Does the work, and returns what it cost the service and its database. */
export async function spent<Result>(bed: ScaleBed, work: () => Promise<Result>): Promise<Spent<Result>> {
  const before = await counts(bed);
  const [cpu, began] = [cpuMs(bed.service.pid), performance.now()];
  const result = await work();
  const ms = performance.now() - began;
  const used = cpuMs(bed.service.pid) - cpu;
  const after = await counts(bed);
  const [transactions, rows] = [after.transactions - before.transactions, after.rows - before.rows];
  return { result, ms, cpu: used, transactions, rows, countedMs: after.at - before.at };
}

/** Returns the cost of one of `many`, less the idle service's cost in that time. */
export function perOne(what: keyof Counts, idle: Spent<unknown>, busy: Spent<unknown>, many: number): number {
  return rounded((busy[what] - (idle[what] / idle.countedMs) * busy.countedMs) / many);
}

/** Returns the processor time (in ms) of the service for one of `many`, less the idle service's in that time. */
export function cpuOfOne(idle: Spent<unknown>, busy: Spent<unknown>, many: number): number {
  return rounded((busy.cpu - (idle.cpu / idle.ms) * busy.ms) / many);
}

async function counts(bed: ScaleBed): Promise<Counts & { at: number }> {
  await span(COUNTS_LATER_MS);
  const [found] = await bed.query<{ transactions: string; rows: string }>(
    `select (select xact_commit + xact_rollback from pg_stat_database where datname = current_database()) as transactions,
            (select coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0) from pg_stat_user_tables where relname like 'es\\_event%') as rows`,
  );
  return { transactions: Number(found?.transactions), rows: Number(found?.rows), at: performance.now() };
}
