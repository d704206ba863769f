import { Intervals } from '../../src/kernel/config/intervals.ts';

const quick = { foldGatherMs: 50, leaseRenewMs: 150, leaseLookMs: 50, sagaRetryMs: 50, captureRetryMs: 50 };

/** The product's intervals, except that sagas soon retry failures. */
export const quickRetries: Intervals = Object.assign(new Intervals(), { sagaRetryMs: quick.sagaRetryMs });

/** Short intervals, for tests of events at the end of one. */
export const quickIntervals: Intervals = Object.assign(new Intervals(), quick);
