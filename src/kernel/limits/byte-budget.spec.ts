import fc from 'fast-check';

import { ByteBudget } from './byte-budget.ts';

const never = new AbortController().signal;
const settled = () => new Promise((resolve) => setImmediate(resolve));

describe('a budget of bytes', () => {
  it('grants bytes at once while they are free, and later as soon as enough are released', async () => {
    const budget = new ByteBudget({ limit: 10, perAccount: 10 });
    const give = await budget.reserve('a', 8, never);
    let isTaken = false;
    const second = budget.reserve('a', 4, never).then((back) => ((isTaken = true), back));
    await settled();
    expect(isTaken).toBe(false);
    give();
    give();
    (await second)();
    expect(budget.inUse).toBe(0);
  });

  it('leaves bytes for others, whatever one account requests', async () => {
    const budget = new ByteBudget({ limit: 10, perAccount: 5 });
    await Promise.all([budget.reserve('greedy', 5, never), Promise.race([budget.reserve('greedy', 5, never), settled()])]);
    const give = await budget.reserve('modest', 5, never);
    give();
    expect(budget.inUse).toBe(5);
  });

  it('grants a request beyond an account’s limit when the account holds nothing else', async () => {
    const budget = new ByteBudget({ limit: 10, perAccount: 5 });
    const give = await budget.reserve('a', 1_000, never);
    expect(budget.inUse).toBe(5);
    give();
  });

  it('does not let small requests overtake a large one for ever', async () => {
    const budget = new ByteBudget({ limit: 10, perAccount: 10 });
    const first = await budget.reserve('a', 6, never);
    const order: string[] = [];
    const large = budget.reserve('b', 10, never).then((give) => (order.push('large'), give()));
    const small = budget.reserve('c', 1, never).then((give) => (order.push('small'), give()));
    await settled();
    expect(order).toEqual([]);
    first();
    await Promise.all([large, small]);
    expect(order).toEqual(['large', 'small']);
  });

  it('gives bytes without a wait only if they are free, and nobody waits whom they would serve', async () => {
    const budget = new ByteBudget({ limit: 10, perAccount: 6 });
    const give = await budget.reserve('a', 6, never);
    expect([budget.lacking('a', 1), budget.lacking('b', 5), budget.lacking('b', 4)]).toEqual(['account', 'all', null]);
    expect(budget.tryReserve('b', 5)).toBeNull();
    const own = budget.reserve('a', 1, never);
    const kept = budget.tryReserve('b', 2);
    expect(kept).not.toBeNull();
    const others = budget.reserve('c', 3, never);
    expect(budget.tryReserve('b', 1)).toBeNull();
    give();
    for (const release of [...(await Promise.all([own, others])), kept]) release?.();
    expect(budget.inUse).toBe(0);
  });

  it('removes a request that is aborted', async () => {
    const budget = new ByteBudget({ limit: 1, perAccount: 1 });
    const give = await budget.reserve('a', 1, never);
    const impatient = new AbortController();
    const waiting = budget.reserve('a', 1, impatient.signal);
    impatient.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    await expect(budget.reserve('a', 1, impatient.signal)).rejects.toThrow('enough');
    give();
    expect(budget.inUse).toBe(0);
  });

  it('never exceeds its limits, and serves every request, in order within an account', async () => {
    const wish = fc.record({ account: fc.constantFrom('a', 'b', 'c'), bytes: fc.integer({ min: 0, max: 12 }) });
    await fc.assert(
      fc.asyncProperty(fc.array(wish, { maxLength: 40 }), async (wishes) => {
        const budget = new ByteBudget({ limit: 10, perAccount: 6 });
        const served: Record<string, number[]> = { a: [], b: [], c: [] };
        let most = 0;
        await Promise.all(
          wishes.map(async ({ account, bytes }, index) => {
            const give = await budget.reserve(account, bytes, never);
            served[account]?.push(index);
            most = Math.max(most, budget.inUse);
            await settled();
            give();
          }),
        );
        expect(most).toBeLessThanOrEqual(10);
        expect(budget.inUse).toBe(0);
        for (const [account, order] of Object.entries(served))
          expect(order).toEqual(wishes.flatMap((wanted, index) => (wanted.account === account ? [index] : [])));
      }),
      { numRuns: 50 },
    );
  });
});
