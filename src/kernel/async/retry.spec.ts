import fc from 'fast-check';

import { aborted, pause } from './pause.ts';
import { Backoff, retry } from './retry.ts';

const quick = { firstMs: 1, lastMs: 2 };

describe('A piece of work that is repeated', () => {
  it('returns its first successful result', async () => {
    const work = jest.fn<Promise<string>, []>().mockRejectedValueOnce(new Error('a gust')).mockResolvedValue('arrived');
    const seen: [string, number][] = [];
    expect(await retry(work, { ...quick, onRetry: (error, ms) => seen.push([(error as Error).message, ms]) })).toBe('arrived');
    expect(seen).toEqual([['a gust', 1]]);
  });

  it('fails with the last error when its attempts are used up', async () => {
    let count = 0;
    const work = () => Promise.reject(new Error(`storm ${(count += 1)}`));
    await expect(retry(work, { ...quick, attempts: 3 })).rejects.toThrow('storm 3');
  });

  it('fails immediately with an error that no retry can fix', async () => {
    const work = jest.fn(() => Promise.reject(new Error('no such harbour')));
    await expect(retry(work, { ...quick, mayPass: (error) => !(error as Error).message.startsWith('no such') })).rejects.toThrow(
      'no such harbour',
    );
    expect(work).toHaveBeenCalledTimes(1);
  });

  it('ends during a wait when its signal aborts, with the reason', async () => {
    const stopping = new AbortController();
    const work = () => Promise.reject(new Error('a gust'));
    const outcome = retry(work, {
      firstMs: 60_000,
      lastMs: 60_000,
      signal: stopping.signal,
      onRetry: () => stopping.abort(new Error('stop')),
    });
    await expect(outcome).rejects.toThrow('stop');
  });
});

it('A wait doubles up to the last, and begins again after a success', async () => {
  const gone = AbortSignal.abort();
  const bounds = fc.record({ firstMs: fc.integer({ min: 1, max: 1_000 }), lastMs: fc.integer({ min: 1_000, max: 60_000 }) });
  await fc.assert(
    fc.asyncProperty(bounds, fc.integer({ min: 0, max: 20 }), async (bounded, count) => {
      const backoff = new Backoff(bounded);
      for (let wait = 0; wait < count; wait += 1) await backoff.pause(gone);
      expect(backoff.ms).toBe(Math.min(bounded.firstMs * 2 ** count, bounded.lastMs));
      backoff.reset();
      expect(backoff.ms).toBe(bounded.firstMs);
    }),
  );
});

it('A pause ends early, and without an error, when its signal aborts', async () => {
  const stopping = new AbortController();
  const waits = Promise.all([pause(3_600_000, stopping.signal), aborted(stopping.signal)]);
  stopping.abort(new Error('stop'));
  expect(await waits).toEqual([undefined, undefined]);
});
