import fc from 'fast-check';

import { Allowances } from './allowances.ts';

/** Makes the clock stand still at that time, in ms. */
const at = (ms: number) => jest.spyOn(performance, 'now').mockReturnValue(ms);
afterEach(() => jest.restoreAllMocks());

describe('an allowance', () => {
  it('can be spent at once after a pause, and is then to be waited for', () => {
    at(0);
    const allowances = new Allowances({ perSecond: 10, savedMax: 2 });
    expect([1, 2, 3, 4].map(() => allowances.spend('acme', 1))).toEqual([0, 0, 100, 200]);
    at(1_000);
    expect([1, 2, 3].map(() => allowances.spend('acme', 1))).toEqual([0, 0, 100]);
  });

  it('of one share is not touched by what another one spends', () => {
    at(0);
    const allowances = new Allowances({ perSecond: 10, savedMax: 1 });
    expect([allowances.spend('acme', 50), allowances.spend('other', 1)]).toEqual([4_900, 0]);
  });

  it('makes nobody wait for longer than for what a share may owe', () => {
    at(0);
    const allowances = new Allowances({ perSecond: 10, savedMax: 1, owedMax: 5 });
    expect([1, 2, 3].map(() => allowances.spend('acme', 4))).toEqual([300, 500, 500]);
  });

  it('is never exceeded, in whatever amounts and at whatever times it is spent', () => {
    const spent = fc.record({ afterMs: fc.nat(2_000), amount: fc.nat(100) });
    fc.assert(
      fc.property(fc.array(spent, { maxLength: 30 }), fc.integer({ min: 1, max: 100 }), fc.nat(100), (all, perSecond, savedMax) => {
        const allowances = new Allowances({ perSecond, savedMax });
        let [now, total] = [0, 0];
        for (const { afterMs, amount } of all) {
          at((now += afterMs));
          total += amount;
          const earnedBy = now + allowances.spend('acme', amount);
          expect(total).toBeLessThanOrEqual(savedMax + (earnedBy / 1_000) * perSecond + 1e-6);
        }
      }),
    );
  });
});
