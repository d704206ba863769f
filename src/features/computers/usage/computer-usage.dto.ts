import { IsIn, IsOptional, IsUUID } from 'class-validator';

import { Text } from '../../agents/index.ts';
import { invalidField } from '../../../kernel/errors/problem-error.ts';
import { PageQueryDto } from '../../../http/requests/page.dto.ts';
import { TimeQuery } from '../../../http/requests/validation.ts';
import { endUserRule } from '../fields/computer-fields.ts';
import type { ComputerUsage, Granularity, UsageSelection, UsageTotals } from './computer-usage.queries.ts';

/** The longest time that one answer covers. */
const DAYS_MAX = 366;
const DAY_MS = 86_400_000;

export class ComputerUsageQueryDto extends PageQueryDto {
  /** The begin of the time; default: that of this month, UTC. */
  @TimeQuery()
  from?: string;

  /** The end of the time, at most 366 days after its begin; default: now. */
  @TimeQuery()
  to?: string;

  /** The periods into which each computer's time awake is divided, which begin at midnight UTC; default `day`. */
  @IsOptional()
  @IsIn(['day', 'month', 'total'])
  granularity?: Granularity;

  /** Selects the computers of this end user. */
  @IsOptional()
  @Text(endUserRule)
  end_user_id?: string;

  /** Selects this computer. */
  @IsOptional()
  @IsUUID()
  computer_id?: string;
}

/** The use of computers. Times awake are exact to the second, also across restarts of the service; the others are counted by UTC days. */
export class UsedDto {
  awake_seconds: number;
  /** The number of times that a computer woke. */
  wakes: number;
  actions: number;
  screenshots: number;
  exec_calls: number;
  viewer_seconds: number;
}

export class UsedPeriodDto {
  start: string;
  end: string;
  awake_seconds: number;
}

export class UsedComputerDto extends UsedDto {
  computer_id: string;
  end_user_id: string;
  size: string;
  /** The periods in which the computer was awake. */
  periods: UsedPeriodDto[];
}

export class ComputerUsageDto {
  from: string;
  to: string;
  granularity: Granularity;
  /** The use of all computers, on all pages. */
  totals: UsedDto;
  /** The computers that were used, ordered by id, deleted ones too. */
  computers: UsedComputerDto[];
}

/** Returns what the query asks for. Throws `invalid_request` if its times are in no order, or too far apart. */
export function usageSelection(accountId: string, query: ComputerUsageQueryDto, now: Date): UsageSelection {
  const { granularity = 'day', end_user_id: endUserId = null, computer_id } = query;
  const from = new Date(query.from ?? Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1));
  const to = new Date(query.to ?? now);
  if (to <= from) throw invalidField('to', 'must be after from');
  if (to.getTime() - from.getTime() > DAYS_MAX * DAY_MS) throw invalidField('from', `must be at most ${DAYS_MAX} days before to`);
  return { accountId, from, to, granularity, endUserId, computerId: computer_id?.toLowerCase() ?? null };
}

export function toComputerUsageDto({ from, to, granularity }: UsageSelection, { totals, computers }: ComputerUsage): ComputerUsageDto {
  return {
    from: from.toISOString(),
    to: to.toISOString(),
    granularity,
    totals: usedMembers(totals),
    computers: computers.map(({ computerId, endUserId, size, periods, ...used }) => ({
      computer_id: computerId,
      end_user_id: endUserId,
      size,
      ...usedMembers(used),
      periods: periods.map(({ start, end, awakeMs }) => ({
        start: start.toISOString(),
        end: end.toISOString(),
        awake_seconds: secondsOf(awakeMs),
      })),
    })),
  };
}

function usedMembers({ awakeMs, wakes, actions, screenshots, execCalls, viewerSeconds }: UsageTotals) {
  return { awake_seconds: secondsOf(awakeMs), wakes, actions, screenshots, exec_calls: execCalls, viewer_seconds: viewerSeconds };
}

/** Rounds a sum of times, and never the times themselves. */
function secondsOf(ms: number): number {
  return Math.round(ms / 1_000);
}
