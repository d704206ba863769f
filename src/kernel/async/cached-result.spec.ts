import { CachedResult } from './cached-result.ts';

describe('a cached result', () => {
  beforeEach(() => jest.useFakeTimers());
  afterEach(() => jest.useRealTimers());

  it('is read once for all concurrent callers, however long that takes, and until it is too old', async () => {
    let asked = 0;
    const answers: ((value: number) => void)[] = [];
    const kept = new CachedResult(() => new Promise<number>((resolve) => void answers.push(resolve)).finally(() => (asked += 1)), 1_000);
    const waiting = [kept.get(), kept.get()];
    await jest.advanceTimersByTimeAsync(5_000);
    waiting.push(kept.get());
    expect(answers).toHaveLength(1);
    answers[0]?.(1);
    expect(await Promise.all(waiting)).toEqual([1, 1, 1]);
    await jest.advanceTimersByTimeAsync(999);
    expect(await kept.get()).toBe(1);
    await jest.advanceTimersByTimeAsync(1);
    const next = kept.get();
    answers[1]?.(2);
    expect(await next).toBe(2);
    expect(asked).toBe(2);
  });

  it('is read again after a failure', async () => {
    const kept = new CachedResult(jest.fn().mockRejectedValueOnce(new Error('away')).mockResolvedValue('here'), 1_000);
    await expect(kept.get()).rejects.toThrow('away');
    expect(await kept.get()).toBe('here');
  });
});
