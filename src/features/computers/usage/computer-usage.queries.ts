import { Query } from '@nestjs/cqrs';

export type Granularity = 'day' | 'month' | 'total';

/** The use of computers. The time awake is in ms. */
export interface UsageTotals {
  awakeMs: number;
  /** The number of times that a computer woke. */
  wakes: number;
  actions: number;
  screenshots: number;
  execCalls: number;
  viewerSeconds: number;
}

/** A part of the requested time, and the time awake in it. */
export interface UsagePeriod {
  start: Date;
  end: Date;
  awakeMs: number;
}

export interface ComputerUsageEntry extends UsageTotals {
  computerId: string;
  endUserId: string;
  size: string;
  /** The periods in which the computer was awake. */
  periods: UsagePeriod[];
}

export interface ComputerUsage {
  /** The use of all selected computers, on all pages. */
  totals: UsageTotals;
  /** One page of the computers that were used, ordered by id. */
  computers: ComputerUsageEntry[];
}

/** Selects the account, the computers and the time of a usage report. */
export interface UsageSelection {
  accountId: string;
  from: Date;
  to: Date;
  granularity: Granularity;
  endUserId: string | null;
  computerId: string | null;
}

/** Returns the account's use of its computers between two times, including deleted ones. */
export class GetComputerUsage extends Query<ComputerUsage> {
  constructor(
    readonly selection: UsageSelection,
    readonly limit: number,
    /** The last computer of the previous page. */
    readonly after: string | null,
  ) {
    super();
  }
}
