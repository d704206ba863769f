import { jest } from '@jest/globals';
import fc from 'fast-check';

import { KeyedQueue } from './keyed-queue.ts';

/** Runs that end when the test says so. */
class Runs {
  readonly started: string[] = [];
  readonly open: { key: string; signal: AbortSignal; end(error?: Error): void }[] = [];
  readonly failures: { key: string; retryInMs: number }[] = [];
  readonly queue: KeyedQueue;
  most = 0;
  overlapped = false;

  constructor(concurrency = 1, random = () => 0.5) {
    this.queue = new KeyedQueue({
      concurrency,
      random,
      run: (key, signal) => this.run(key, signal),
      onFailure: (key, _error, retryInMs) => this.failures.push({ key, retryInMs }),
      isOutage: (error) => (error as Error).message === 'away',
    });
  }

  private run(key: string, signal: AbortSignal): Promise<void> {
    this.started.push(key);
    this.overlapped ||= this.open.some((run) => run.key === key);
    return new Promise((resolve, reject) => {
      const run = {
        key,
        signal,
        end: (error?: Error) => {
          this.open.splice(this.open.indexOf(run), 1);
          if (error) reject(error);
          else resolve();
        },
      };
      this.open.push(run);
      this.most = Math.max(this.most, this.open.length);
    });
  }

  async end(error?: Error): Promise<void> {
    this.open[0]?.end(error);
    await settle();
  }
}

/** Lets all that can go on without a timer go on. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
}

describe('the queue of a saga', () => {
  beforeEach(() => jest.useFakeTimers());
  afterEach(() => jest.useRealTimers());

  it('melts wakes of one key into one run, and those during a run into exactly one more', async () => {
    const runs = new Runs();
    for (let n = 0; n < 5; n += 1) runs.queue.wake('a');
    await settle();
    expect(runs.started).toEqual(['a']);
    for (let n = 0; n < 5; n += 1) runs.queue.wake('a');
    await runs.end();
    expect(runs.started).toEqual(['a', 'a']);
    await runs.end();
    expect(runs.started).toEqual(['a', 'a']);
    expect(runs.queue.busy).toBe(0);
  });

  it('serves keys in the order in which they came; who was just served stands at the end', async () => {
    const runs = new Runs();
    for (const key of ['a', 'b', 'c']) runs.queue.wake(key);
    await settle();
    runs.queue.wake('a');
    for (let n = 0; n < 4; n += 1) await runs.end();
    expect(runs.started).toEqual(['a', 'b', 'c', 'a']);
  });

  it('works on as many keys at once as allowed, and no more', async () => {
    const runs = new Runs(3);
    for (const key of 'abcdefgh') runs.queue.wake(key);
    await settle();
    expect(runs.open).toHaveLength(3);
    while (runs.open.length > 0) await runs.end();
    expect(runs.most).toBe(3);
    expect(runs.started).toEqual('abcdefgh'.split(''));
  });

  it('repeats a failed run after a wait that grows from 1 s to 60 s, and begins anew after a success', async () => {
    const runs = new Runs();
    runs.queue.wake('a');
    await settle();
    for (let n = 0; n < 8; n += 1) {
      await runs.end(new Error('no'));
      await jest.advanceTimersByTimeAsync(runs.failures.at(-1)?.retryInMs ?? 0);
      expect(runs.open).toHaveLength(1);
    }
    expect(runs.failures.map(({ retryInMs }) => retryInMs)).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
    await runs.end();
    runs.queue.wake('a');
    await settle();
    await runs.end(new Error('no'));
    expect(runs.failures.at(-1)?.retryInMs).toBe(1_000);
    await runs.queue.stop();
  });

  it('asks every 5 s at least whether a store that was away is back, however long it is', async () => {
    const runs = new Runs();
    runs.queue.wake('a');
    await settle();
    for (let n = 0; n < 6; n += 1) {
      await runs.end(new Error('away'));
      await jest.advanceTimersByTimeAsync(runs.failures.at(-1)?.retryInMs ?? 0);
    }
    expect(runs.failures.map(({ retryInMs }) => retryInMs)).toEqual([1_000, 2_000, 4_000, 5_000, 5_000, 5_000]);
    await runs.end();
    await runs.queue.stop();
  });

  it('spreads the waits of keys that failed together', async () => {
    const waits = await Promise.all(
      [0, 0.999].map(async (x) => {
        const runs = new Runs(1, () => x);
        runs.queue.wake('a');
        await settle();
        await runs.end(new Error('no'));
        await jest.advanceTimersByTimeAsync(2_000);
        await runs.end(new Error('no'));
        const wait = runs.failures[1]?.retryInMs ?? 0;
        await runs.queue.stop();
        return wait;
      }),
    );
    expect(waits[0]).toBe(1_500);
    expect(waits[1]).toBeCloseTo(2_499, 0);
  });

  it('lets a signal shorten a long wait, but not below a second after the failure', async () => {
    const runs = new Runs();
    runs.queue.wake('a');
    await settle();
    for (let n = 0; n < 5; n += 1) {
      await runs.end(new Error('no'));
      if (n < 4) await jest.advanceTimersByTimeAsync(60_000);
    }
    runs.queue.wake('a');
    await jest.advanceTimersByTimeAsync(990);
    expect(runs.open).toHaveLength(0);
    await jest.advanceTimersByTimeAsync(20);
    expect(runs.open).toHaveLength(1);
    await runs.end();
    await runs.queue.stop();
  });

  it('is not hurried by a reminder', async () => {
    const runs = new Runs();
    runs.queue.wake('a');
    await settle();
    runs.queue.remind('a');
    runs.queue.remind('b');
    await runs.end(new Error('no'));
    runs.queue.remind('a');
    await runs.end();
    expect(runs.started).toEqual(['a', 'b']);
    await runs.queue.stop();
  });

  it('aborts what runs when it stops, waits for it, and starts nothing more', async () => {
    const runs = new Runs(2);
    for (const key of 'abc') runs.queue.wake(key);
    await settle();
    let stopped = false;
    const stopping = runs.queue.stop().then(() => (stopped = true));
    await settle();
    expect(runs.open.map((run) => run.signal.aborted)).toEqual([true, true]);
    expect(stopped).toBe(false);
    runs.queue.wake('d');
    await runs.end(new Error('aborted'));
    await runs.end();
    await stopping;
    expect(runs.started).toEqual(['a', 'b']);
    expect(runs.failures).toEqual([]);
  });

  it('does not wait for ever for a run that takes no notice, and names it', async () => {
    const runs = new Runs();
    runs.queue.wake('a');
    await settle();
    const stopping = runs.queue.stop();
    await jest.advanceTimersByTimeAsync(10_000);
    expect(await stopping).toEqual(['a']);
  });

  it('never works on a key twice at once, keeps to its bound, and runs every key after its last wake, whatever happens when', async () => {
    const step = fc.oneof(
      { weight: 4, arbitrary: fc.record({ do: fc.constant('wake' as const), key: fc.constantFrom('a', 'b', 'c', 'd', 'e') }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('remind' as const), key: fc.constantFrom('a', 'b', 'c', 'd', 'e') }) },
      { weight: 3, arbitrary: fc.record({ do: fc.constant('end' as const), index: fc.nat(4) }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('fail' as const), index: fc.nat(4) }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.nat(3_000) }) },
    );
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 3 }), fc.array(step, { maxLength: 60 }), async (concurrency, steps) => {
        const runs = new Runs(concurrency);
        const startedAtWake = new Map<string, number>();
        const count = (key: string) => runs.started.filter((started) => started === key).length;
        for (const each of steps) {
          if (each.do === 'wake') {
            startedAtWake.set(each.key, count(each.key));
            runs.queue.wake(each.key);
          } else if (each.do === 'remind') runs.queue.remind(each.key);
          else if (each.do === 'pass') await jest.advanceTimersByTimeAsync(each.ms);
          else runs.open[each.index % Math.max(1, runs.open.length)]?.end(each.do === 'fail' ? new Error('no') : undefined);
          if (each.do !== 'wake') await settle();
        }
        for (let round = 0; round < 200 && (runs.open.length > 0 || runs.queue.busy > 0); round += 1) {
          await runs.end();
          await jest.advanceTimersByTimeAsync(60_000);
        }
        await jest.advanceTimersByTimeAsync(60_000);
        while (runs.open.length > 0) await runs.end();
        expect(runs.overlapped).toBe(false);
        expect(runs.most).toBeLessThanOrEqual(concurrency);
        for (const [key, before] of startedAtWake) expect(count(key)).toBeGreaterThan(before);
        await runs.queue.stop();
      }),
      { numRuns: 300 },
    );
  });
});
