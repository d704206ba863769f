import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';

import { Clock } from '../../../kernel/clock.ts';
import { Database } from '../../../postgres/database/database.ts';
import { tableOf } from '../../../eventsourcing/projections/projection.ts';
import { computerCountsProjection } from './computer-counts.projection.ts';
import { computerIntervalsProjection } from './computer-intervals.projection.ts';
import {
  GetComputerUsage,
  type ComputerUsage,
  type Granularity,
  type UsageSelection,
  type UsageTotals,
  type UsagePeriod,
} from './computer-usage.queries.ts';

const INTERVALS = tableOf(computerIntervalsProjection);
const COUNTS = tableOf(computerCountsProjection);

/**
 * The times awake of the account $1 from $2 to $3, clipped at both ends, for the computers $4 if that is not null. One that is not over
 * lasts until now ($5). Counts are kept by day.
 */
const CHOSEN = `
  awake as (
    select computer_id, started_at, greatest(started_at, $2::timestamptz) as since,
           least(coalesce(ended_at, $5::timestamptz), $3::timestamptz) as until
      from ${INTERVALS}
     where account_id = $1 and (ended_at > $2::timestamptz or ended_at is null) and started_at < $3::timestamptz
       and ($4::text[] is null or computer_id = any ($4::text[]))),
  counted as (
    select computer_id, actions, screenshots, exec_calls, viewer_seconds
      from ${COUNTS}
     where account_id = $1 and day >= date_trunc('day', $2::timestamptz, 'UTC') and day < $3::timestamptz
       and ($4::text[] is null or computer_id = any ($4::text[])))`;

const MS = "extract(epoch from greatest(until - since, interval '0')) * 1000";

/** The sums of all rows of `awake` and `counted` that are grouped together. */
const SUMS = `
  coalesce(sum(awake_ms), 0)::float8 as awake_ms, coalesce(sum(wakes), 0)::float8 as wakes,
  coalesce(sum(actions), 0)::float8 as actions, coalesce(sum(screenshots), 0)::float8 as screenshots,
  coalesce(sum(exec_calls), 0)::float8 as exec_calls, coalesce(sum(viewer_seconds), 0)::float8 as viewer_seconds`;
const USED = `
  used as (
    select computer_id, ${MS} as awake_ms, (started_at >= $2::timestamptz)::int as wakes,
           0 as actions, 0 as screenshots, 0 as exec_calls, 0 as viewer_seconds from awake
    union all
    select computer_id, 0, 0, actions, screenshots, exec_calls, viewer_seconds from counted)`;

const TOTALS = `with ${CHOSEN}, ${USED} select ${SUMS} from used`;

/** The newest row of a computer has its end user and its size. */
const COMPUTERS = `
  with ${CHOSEN}, ${USED}, page as (
    select computer_id, ${SUMS} from used where computer_id > $6 group by computer_id order by computer_id limit $7)
  select page.*, owner.end_user_id, owner.size
    from page cross join lateral (
      select end_user_id, size from ${INTERVALS} i where i.computer_id = page.computer_id
       order by i.ended_at desc nulls first limit 1) as owner
   order by computer_id`;

/** The times awake of the computers of one page, by periods of the unit $6, which begin at borders of UTC. */
const PERIODS = `
  with ${CHOSEN}
  select computer_id, start, sum(extract(epoch from least(until, next) - greatest(since, start)) * 1000)::float8 as awake_ms
    from awake cross join lateral (
      select begun at time zone 'UTC' as start, (begun + ('1 ' || $6)::interval) at time zone 'UTC' as next
        from generate_series(date_trunc($6, since at time zone 'UTC'), until at time zone 'UTC', ('1 ' || $6)::interval) as begun) as period
   where until > since and least(until, next) > greatest(since, start)
   group by computer_id, start order by computer_id, start`;

/** The computers of the end user $2 of the account $1. */
const OF_END_USER = `select distinct computer_id from ${INTERVALS} where account_id = $1 and end_user_id = $2`;

interface UsageRow extends Record<string, unknown> {
  awake_ms: number;
  wakes: number;
  actions: number;
  screenshots: number;
  exec_calls: number;
  viewer_seconds: number;
}

@QueryHandler(GetComputerUsage)
export class GetComputerUsageHandler implements IQueryHandler<GetComputerUsage> {
  constructor(
    private readonly database: Database,
    private readonly clock: Clock,
  ) {}

  async execute({ selection, limit, after }: GetComputerUsage): Promise<ComputerUsage> {
    const { accountId, from, to, granularity } = selection;
    const now = this.clock.now();
    const chosen = [accountId, from, to, await this.chosen(selection), now];
    const [[totals], rows] = await Promise.all([
      this.database.query<UsageRow>(TOTALS, chosen),
      this.database.query<UsageRow & { computer_id: string; end_user_id: string; size: string }>(COMPUTERS, [
        ...chosen,
        after ?? '',
        limit,
      ]),
    ]);
    const ids = rows.map(({ computer_id }) => computer_id);
    const periods = await this.periods([accountId, from, to, ids, now], granularity, rows);
    return {
      totals: toTotals(totals),
      computers: rows.map((row) => ({
        computerId: row.computer_id,
        endUserId: row.end_user_id,
        size: row.size,
        ...toTotals(row),
        periods: (periods.get(row.computer_id) ?? []).map((period) => clampPeriod(period, from, to)),
      })),
    };
  }

  /** Returns the computers that the caller selects; null means all. */
  private async chosen({ accountId, endUserId, computerId }: UsageSelection): Promise<string[] | null> {
    if (endUserId === null) return computerId === null ? null : [computerId];
    const rows = await this.database.query<{ computer_id: string }>(OF_END_USER, [accountId, endUserId]);
    return rows.map(({ computer_id }) => computer_id).filter((id) => computerId === null || id === computerId);
  }

  private async periods(
    [accountId, from, to, ids, now]: [string, Date, Date, string[], Date],
    granularity: Granularity,
    used: (UsageRow & { computer_id: string })[],
  ): Promise<Map<string, UsagePeriod[]>> {
    if (granularity === 'total')
      return new Map(
        used.map(({ computer_id, awake_ms }) => [computer_id, awake_ms === 0 ? [] : [{ start: from, end: to, awakeMs: awake_ms }]]),
      );
    const rows = await this.database.query<{ computer_id: string; start: Date; awake_ms: number }>(PERIODS, [
      accountId,
      from,
      to,
      ids,
      now,
      granularity,
    ]);
    const periods = new Map<string, UsagePeriod[]>();
    for (const { computer_id, start, awake_ms } of rows) {
      const period = { start, end: endOf(start, granularity), awakeMs: awake_ms };
      periods.set(computer_id, [...(periods.get(computer_id) ?? []), period]);
    }
    return periods;
  }
}

function toTotals(row: UsageRow | undefined): UsageTotals {
  if (row === undefined) throw new Error('a sum has a row');
  const { awake_ms: awakeMs, wakes, actions, screenshots, exec_calls: execCalls, viewer_seconds: viewerSeconds } = row;
  return { awakeMs, wakes, actions, screenshots, execCalls, viewerSeconds };
}

function endOf(start: Date, granularity: 'day' | 'month'): Date {
  const [year, month, day] = [start.getUTCFullYear(), start.getUTCMonth(), start.getUTCDate()];
  return new Date(granularity === 'day' ? Date.UTC(year, month, day + 1) : Date.UTC(year, month + 1, 1));
}

/** Clips the period to the requested time. */
function clampPeriod({ start, end, awakeMs }: UsagePeriod, from: Date, to: Date): UsagePeriod {
  return { start: start < from ? from : start, end: end > to ? to : end, awakeMs };
}
