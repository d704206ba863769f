import fc from 'fast-check';

import { TokenBucket, TokenBuckets } from './token-bucket.ts';

describe('a token bucket', () => {
  it('gives what was saved at once, and lets the rest be waited for', () => {
    const bucket = new TokenBucket({ perSecond: 10, savedMax: 2 });
    expect([1, 2, 3, 4].map(() => bucket.spend(1, 0))).toEqual([0, 0, 100, 200]);
    expect([1, 2, 3].map(() => bucket.spend(1, 1_000))).toEqual([0, 0, 100]);
  });

  it('makes nobody wait for longer than for what may be owed', () => {
    const bucket = new TokenBucket({ perSecond: 10, savedMax: 1, owedMax: 5 });
    expect([1, 2, 3].map(() => bucket.spend(4, 0))).toEqual([300, 500, 500]);
  });

  it('earns nothing from a clock that goes back or tells no time', () => {
    const bucket = new TokenBucket({ perSecond: 10, savedMax: 10 });
    bucket.spend(10, 5_000);
    expect([bucket.left(1_000), bucket.left(Number.NaN), bucket.left(5_000), bucket.left(5_100)]).toEqual([0, 0, 0, 1]);
  });

  const spent = fc.record({ afterMs: fc.nat(2_000), amount: fc.nat(100) });
  const rate = fc.record({ perSecond: fc.integer({ min: 1, max: 100 }), savedMax: fc.nat(100) });

  it('never gives more than it had and earned, in whatever amounts and at whatever times it is spent', () => {
    fc.assert(
      fc.property(fc.array(spent, { maxLength: 30 }), rate, (all, { perSecond, savedMax }) => {
        const bucket = new TokenBucket({ perSecond, savedMax });
        let [now, total] = [0, 0];
        for (const { afterMs, amount } of all) {
          now += afterMs;
          total += amount;
          const earnedBy = now + bucket.spend(amount, now);
          expect(total).toBeLessThanOrEqual(savedMax + (earnedBy / 1_000) * perSecond + 1e-6);
        }
      }),
    );
  });

  it('lets whoever waited as long as it was told spend what it asked for, and not before', () => {
    fc.assert(
      fc.property(fc.array(spent, { minLength: 1, maxLength: 30 }), rate, (all, limits) => {
        const bucket = new TokenBucket(limits);
        let [now, waitMs] = [0, 0];
        for (const { afterMs, amount } of all) waitMs = bucket.spend(amount, (now += afterMs));
        if (waitMs > 0) expect(bucket.left(now + waitMs * 0.99)).toBeLessThan(0);
        expect(bucket.left(now + waitMs)).toBeGreaterThanOrEqual(-1e-6);
        expect(bucket.left(now + waitMs + 1_000_000)).toBe(limits.savedMax);
      }),
    );
  });
});

describe('the buckets of keys', () => {
  it('are not touched by what other keys spend', () => {
    const buckets = new TokenBuckets({ perSecond: 10, savedMax: 1 });
    expect([buckets.spend('acme', 50, 0), buckets.spend('other', 1, 0), buckets.left('acme', 0)]).toEqual([4_900, 0, -49]);
  });

  it('are bounded in number: the one that was used the longest ago is dropped, and is full when its key comes again', () => {
    const buckets = new TokenBuckets({ perSecond: 1, savedMax: 1 }, 2);
    for (const key of ['a', 'b']) buckets.spend(key, 11, 0);
    expect(buckets.left('a', 0)).toBe(-10);
    buckets.spend('c', 1, 0);
    expect(['a', 'b'].map((key) => buckets.left(key, 0))).toEqual([-10, 1]);
  });
});
