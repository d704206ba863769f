import { Intervals } from '../../src/platform/intervals.ts';

/** Short intervals, for tests of what happens at the end of one. */
export const quickIntervals: Intervals = Object.assign(new Intervals(), { leaseRenewMs: 150, leaseLookMs: 50, sagaRetryMs: 50 });
