import { Query } from '@nestjs/cqrs';

export type Granularity = 'day' | 'month' | 'total';

/** The use of computers. The time awake is in milliseconds. */
export interface Used {
  awakeMs: number;
  /** The number of times that a computer woke. */
  wakes: number;
  actions: number;
  screenshots: number;
  execCalls: number;
  viewerSeconds: number;
}

/** A part of the time that was asked for, and the time awake in it. */
export interface UsedPeriod {
  start: Date;
  end: Date;
  awakeMs: number;
}

export interface UsedComputer extends Used {
  computerId: string;
  endUserId: string;
  size: string;
  /** The periods in which the computer was awake. */
  periods: UsedPeriod[];
}

export interface ComputerUsage {
  /** The use of all computers that were chosen, on whatever page they are. */
  totals: Used;
  /** One page of the computers that were used, ordered by id. */
  computers: UsedComputer[];
}

/** The choice of what is told: whose use, of which computers, and in which time. */
export interface UsageSelection {
  accountId: string;
  from: Date;
  to: Date;
  granularity: Granularity;
  endUserId: string | null;
  computerId: string | null;
}

/** Returns how much the account used of its computers between two times, deleted ones too. */
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
