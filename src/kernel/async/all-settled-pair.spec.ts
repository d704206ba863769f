import { allSettledPair } from './all-settled-pair.ts';

describe('awaiting two promises', () => {
  it('returns both', async () => {
    expect(await allSettledPair(Promise.resolve(1), Promise.resolve('two'))).toEqual([1, 'two']);
  });

  it('rejects with the first one’s reason, but only after the other one has settled', async () => {
    let fail: (reason: Error) => void = () => undefined;
    const other = new Promise<string>((_, reject) => (fail = reject));
    let isOver = false;
    const both = allSettledPair(Promise.reject(new Error('the first')), other).finally(() => (isOver = true));
    await new Promise((resolve) => setImmediate(resolve));
    expect(isOver).toBe(false);
    fail(new Error('the second'));
    await expect(both).rejects.toThrow('the first');
  });
});
