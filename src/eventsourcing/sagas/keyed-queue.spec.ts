import fc from 'fast-check';

import { Intervals } from '../../kernel/config/intervals.ts';
import { KeyedQueue, type Run } from './keyed-queue.ts';

interface OpenRun {
  key: string;
  run: Run;
  signal: AbortSignal;
  end(error?: Error): void;
}

/** Records runs, which end when the test says so. */
class Runs {
  readonly started: string[] = [];
  readonly open: OpenRun[] = [];
  readonly failures: { key: string; retryInMs: number }[] = [];
  readonly queue: KeyedQueue;
  most = 0;
  overlapped = false;

  constructor(concurrency = 1, random = () => 0.5, maxKeys = 1_000) {
    this.queue = new KeyedQueue({
      concurrency,
      firstRetryMs: new Intervals().sagaRetryMs,
      random,
      maxKeys,
      run: (run) => this.run(run),
      onFailure: (key, _error, retryInMs) => this.failures.push({ key, retryInMs }),
      isOutage: (error) => (error as Error).message === 'away',
    });
  }

  private run(started: Run): Promise<void> {
    const { key, signal } = started;
    this.started.push(key);
    this.overlapped ||= this.open.some((run) => run.key === key);
    return new Promise((resolve, reject) => {
      const run: OpenRun = {
        key,
        run: started,
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

/** Lets everything proceed that does not wait for a timer. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
}

describe('the queue of a saga', () => {
  beforeEach(() => jest.useFakeTimers());
  afterEach(() => jest.useRealTimers());

  it('merges wakes of one key into one run, and wakes during a run into exactly one more', async () => {
    const runs = new Runs();
    for (let n = 0; n < 5; n += 1) runs.queue.wake('a');
    await settle();
    expect(runs.started).toEqual(['a']);
    for (let n = 0; n < 5; n += 1) runs.queue.wake('a');
    await runs.end();
    expect(runs.started).toEqual(['a', 'a']);
    await runs.end();
    expect(runs.started).toEqual(['a', 'a']);
    expect(runs.queue.stats()).toMatchObject({ queued: { signal: 0 }, working: 0 });
  });

  it('runs keys in the order of their wakes; a key that just ran goes to the end', async () => {
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

  it('retries a failed run after a wait that grows from 1 s to 60 s, and resets the wait after a success', async () => {
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

  it('retries at least every 5 s while the event store is unavailable, however long that takes', async () => {
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

  it('jitters the waits of keys that failed together', async () => {
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

  it('does not shorten a wait because of a reminder', async () => {
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

  it('aborts and awaits running keys when it stops, and starts no others', async () => {
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

  it('does not wait forever for a run that ignores the abort, and names it', async () => {
    const runs = new Runs();
    runs.queue.wake('a');
    await settle();
    const stopping = runs.queue.stop();
    await jest.advanceTimersByTimeAsync(10_000);
    expect(await stopping).toEqual(['a']);
  });

  describe('with a run that is waiting without a slot', () => {
    it('starts as many others as there are slots, and continues it once a slot is free', async () => {
      const runs = new Runs();
      const trace: string[] = [];
      for (const key of ['a', 'b', 'c']) runs.queue.wake(key);
      await settle();
      let back: (answer: string) => void = () => undefined;
      const reply = runs.open[0]?.run.withoutSlot(() => new Promise<string>((resolve) => (back = resolve)));
      void reply?.then((answer) => trace.push(answer));
      await settle();
      expect(runs.started).toEqual(['a', 'b']);
      expect(runs.queue.stats()).toMatchObject({ working: 1, aside: 1, queued: { signal: 1 } });
      back('moored');
      await settle();
      expect(trace).toEqual([]);
      expect(runs.queue.stats()).toMatchObject({ working: 1, aside: 0, queued: { signal: 2 } });
      runs.open[1]?.end();
      await settle();
      expect([trace, runs.started]).toEqual([['moored'], ['a', 'b']]);
      await runs.end();
      expect(runs.started).toEqual(['a', 'b', 'c']);
      await runs.end();
      expect(runs.queue.stats()).toMatchObject({ working: 0, aside: 0, queued: { signal: 0 }, topAccounts: [] });
    });

    it('passes on the error of the work, with a slot held again', async () => {
      const runs = new Runs();
      runs.queue.wake('a');
      await settle();
      await expect(runs.open[0]?.run.withoutSlot(() => Promise.reject(new Error('adrift')))).rejects.toThrow('adrift');
      expect(runs.queue.stats()).toMatchObject({ working: 1, aside: 0 });
      await runs.end();
    });

    it('holds one slot again if it waited for several things at once, or did not await some of them', async () => {
      const runs = new Runs(2);
      runs.queue.wake('a');
      runs.queue.wake('b');
      await settle();
      const { run } = runs.open[0] as OpenRun;
      let late: () => void = () => undefined;
      const left = run.withoutSlot(() => new Promise<void>((resolve) => (late = resolve)));
      await Promise.all([run.withoutSlot(settle), run.withoutSlot(() => run.withoutSlot(settle))]);
      expect(runs.queue.stats()).toMatchObject({ working: 2, aside: 0 });
      await runs.end();
      await runs.end();
      late();
      await left;
      expect(runs.queue.stats()).toMatchObject({ working: 0, aside: 0, queued: { signal: 0 } });
    });

    it('is aborted when the queue stops, gets its slot again, and is awaited', async () => {
      const runs = new Runs();
      runs.queue.wake('a');
      runs.queue.wake('b');
      await settle();
      let back: () => void = () => undefined;
      const waiting = runs.open[0]?.run.withoutSlot(() => new Promise<void>((resolve) => (back = resolve)));
      await settle();
      runs.queue.wake('c');
      const stopping = runs.queue.stop();
      back();
      runs.open[1]?.end();
      await waiting;
      await runs.end();
      expect(await stopping).toEqual([]);
      expect(runs.started).toEqual(['a', 'b']);
    });
  });

  it('lets accounts take turns, by the last known account of each key', async () => {
    const runs = new Runs();
    runs.queue.wake('first');
    for (const key of ['a1', 'a2', 'a3', 'a4']) runs.queue.wake(key, 'a');
    runs.queue.wake('b1', 'b');
    runs.queue.wake('unknown');
    runs.queue.remind('b2', 'b');
    // A signal is more recent knowledge about the key than a reminder.
    runs.queue.wake('b2', 'c');
    await settle();
    while (runs.open.length > 0) await runs.end();
    expect(runs.started).toEqual(['first', 'a1', 'b1', 'unknown', 'b2', 'a2', 'a3', 'a4']);
  });

  it('counts a key for its account as soon as a run names it', async () => {
    const runs = new Runs();
    runs.queue.wake('a');
    await settle();
    expect(runs.queue.stats().topAccounts).toEqual([{ account: null, keys: 1 }]);
    runs.open[0]?.run.setAccount('acme');
    expect(runs.queue.stats().topAccounts).toEqual([{ account: 'acme', keys: 1 }]);
    const { run } = runs.open[0] as OpenRun;
    await runs.end();
    run.setAccount('other');
    expect(runs.queue.stats().topAccounts).toEqual([]);
  });

  it('lets no account fill it: each may have as many keys as there are free places, and further ones are dropped', async () => {
    const runs = new Runs(1, () => 0.5, 100);
    const taken = (account: string) =>
      Array.from({ length: 100 }, (_, n) => runs.queue.wake(`${account}${n}`, account)).filter(Boolean).length;
    expect([taken('a'), taken('b'), taken('c')]).toEqual([50, 25, 13]);
    expect(runs.queue.wake('d1', 'd')).toBe(true);
    // A key that is known already needs no further place.
    expect(runs.queue.wake('a1', 'a')).toBe(true);
    expect(runs.queue.stats()).toMatchObject({
      dropped: 212,
      topAccounts: [{ account: 'a' }, { account: 'b' }, { account: 'c' }, { account: 'd' }],
    });
    const stopping = runs.queue.stop();
    await settle();
    await runs.end();
    await stopping;
  });

  it('removes the keys that it drops, aborts their runs, and continues with the others', async () => {
    const runs = new Runs(2);
    for (const key of ['x1', 'y1', 'x2', 'y2', 'x3']) runs.queue.wake(key);
    await settle();
    await runs.end(new Error('no'));
    let dropped: string[] | null = null;
    void runs.queue.drop((key) => key.startsWith('x')).then((left) => (dropped = left));
    await settle();
    expect(runs.open.map(({ key, signal }) => [key, signal.aborted])).toEqual([
      ['y1', false],
      ['x2', true],
    ]);
    expect(dropped).toBeNull();
    runs.open[1]?.end(new Error('aborted'));
    await settle();
    expect(dropped).toEqual([]);
    while (runs.open.length > 0) await runs.end();
    await jest.advanceTimersByTimeAsync(60_000);
    expect(runs.started).toEqual(['x1', 'y1', 'x2', 'y2']);
  });

  it('does not run a key that was dropped and woken again before its old run has ended', async () => {
    const runs = new Runs(2);
    runs.queue.wake('a');
    await settle();
    const dropping = runs.queue.drop(() => true, 1_000);
    runs.queue.wake('a');
    await jest.advanceTimersByTimeAsync(1_000);
    expect(await dropping).toEqual(['a']);
    expect(runs.started).toEqual(['a']);
    await runs.end();
    expect(runs.started).toEqual(['a', 'a']);
    expect(runs.open[0]?.signal.aborted).toBe(false);
    await runs.end();
  });

  it('never runs a key twice at once, keeps its bound, and runs every key after its last wake, in any order of operations', async () => {
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
        for (let round = 0; round < 200 && (runs.open.length > 0 || runs.queue.stats().working > 0); round += 1) {
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
