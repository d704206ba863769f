import fc from 'fast-check';

import { FairLimiter, type FairLimits, type Share } from './fair-limiter.ts';

/** Runs work in a limiter that ends when the test ends it. */
class Works {
  readonly started: Share[] = [];
  readonly open: { share: Share; end(error?: Error): void }[] = [];
  readonly limiter: FairLimiter;

  constructor(limits: FairLimits) {
    this.limiter = new FairLimiter(limits);
  }

  run(account: string, agent = 'a', signal = new AbortController().signal): Promise<string> {
    const share = { account, agent };
    return this.limiter.run(share, signal, () => {
      this.started.push(share);
      return new Promise((resolve, reject) => {
        const work = {
          share,
          end: (error?: Error) => {
            this.open.splice(this.open.indexOf(work), 1);
            if (error) reject(error);
            else resolve(`${account}/${agent}`);
          },
        };
        this.open.push(work);
      });
    });
  }

  async end(index = 0, error?: Error): Promise<void> {
    this.open[index]?.end(error);
    await settle();
  }
}

/** Lets everything run that needs no timer. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 6; turn += 1) await Promise.resolve();
}

describe('the fair limiter', () => {
  it('runs as much at once as its limit allows, and returns the result of the work', async () => {
    const works = new Works({ limit: 2 });
    const answers = [works.run('a'), works.run('b'), works.run('c')];
    await settle();
    expect(works.started).toHaveLength(2);
    await works.end();
    expect(works.started).toHaveLength(3);
    await works.end(0, new Error('no wind'));
    await works.end();
    expect(await Promise.allSettled(answers)).toEqual([
      { status: 'fulfilled', value: 'a/a' },
      { status: 'rejected', reason: new Error('no wind') },
      { status: 'fulfilled', value: 'c/a' },
    ]);
    expect(works.limiter.stats()).toEqual({ running: 0, waiting: 0, oldestWaitMs: 0, accounts: [] });
  });

  it('gives free slots to accounts in turn, and to the agents of each in turn', async () => {
    const works = new Works({ limit: 1 });
    const all = [works.run('big', '1'), ...['1', '1', '1', '2', '2'].map((agent) => works.run('big', agent)), works.run('small')];
    await settle();
    while (works.open.length > 0) await works.end();
    await Promise.all(all);
    expect(works.started.map(({ account, agent }) => `${account}${agent}`)).toEqual([
      'big1',
      'big1',
      'smalla',
      'big2',
      'big1',
      'big2',
      'big1',
    ]);
  });

  it('limits an account and an agent even if slots are free', async () => {
    const works = new Works({ limit: 10, perAccount: 3, perAgent: 2 });
    const all = ['1', '1', '1', '2', '2', '2'].map((agent) => works.run('big', agent));
    all.push(works.run('small'));
    await settle();
    expect(works.started.map(({ account, agent }) => `${account}${agent}`).sort()).toEqual(['big1', 'big1', 'big2', 'smalla']);
    expect(works.limiter.stats()).toMatchObject({
      running: 4,
      waiting: 3,
      accounts: [
        { account: 'big', running: 3, waiting: 3 },
        { account: 'small', running: 1, waiting: 0 },
      ],
    });
    while (works.open.length > 0) await works.end();
    await Promise.all(all);
  });

  it('removes waiting work whose signal aborts, and starts none whose signal has aborted', async () => {
    const works = new Works({ limit: 1 });
    const gone = new AbortController();
    const first = works.run('a');
    const given = works.run('b', 'a', gone.signal);
    const last = works.run('b');
    await settle();
    gone.abort(new Error('gone'));
    await expect(given).rejects.toThrow('gone');
    await expect(works.run('c', 'a', gone.signal)).rejects.toThrow('gone');
    await works.end();
    await works.end();
    await Promise.all([first, last]);
    expect(works.started.map(({ account }) => account)).toEqual(['a', 'b']);
    expect(works.limiter.stats()).toMatchObject({ running: 0, waiting: 0, accounts: [] });
  });

  it('reports how long the oldest work has waited', async () => {
    const works = new Works({ limit: 1 });
    const all = [works.run('a'), works.run('b')];
    await settle();
    const before = works.limiter.stats().oldestWaitMs;
    await new Promise((resolve) => setImmediate(resolve));
    expect(works.limiter.stats().oldestWaitMs).toBeGreaterThan(before);
    await works.end();
    await works.end();
    await Promise.all(all);
  });

  const account = fc.constantFrom('a', 'b', 'c', 'd');
  const agent = fc.constantFrom('1', '2', '3');
  const step = fc.oneof(
    { weight: 4, arbitrary: fc.record({ do: fc.constant('run' as const), account, agent }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('end' as const), index: fc.nat(5) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('give up' as const), index: fc.nat(5) }) },
  );
  const limits = fc.record({
    limit: fc.integer({ min: 1, max: 4 }),
    perAccount: fc.integer({ min: 1, max: 3 }),
    perAgent: fc.integer({ min: 1, max: 2 }),
  });

  it('keeps every limit, leaves no usable slot empty, and starts all work that was not aborted', async () => {
    await fc.assert(
      fc.asyncProperty(limits, fc.array(step, { maxLength: 60 }), async (bounds, steps) => {
        const works = new Works(bounds);
        const waiting: { share: Share; abort: AbortController }[] = [];
        const all: Promise<unknown>[] = [];
        let ran = 0;
        let gaveUp = 0;
        const check = () => {
          const open = (fits: (share: Share) => boolean) => works.open.filter(({ share }) => fits(share)).length;
          const hasPlace = (share: Share) =>
            works.open.length < bounds.limit &&
            open((other) => other.account === share.account) < bounds.perAccount &&
            open((other) => other.account === share.account && other.agent === share.agent) < bounds.perAgent;
          expect(works.open.length).toBeLessThanOrEqual(bounds.limit);
          for (const { share } of works.open) {
            expect(open((other) => other.account === share.account)).toBeLessThanOrEqual(bounds.perAccount);
            expect(open((other) => other.account === share.account && other.agent === share.agent)).toBeLessThanOrEqual(bounds.perAgent);
          }
          for (const { share } of waiting) expect(hasPlace(share)).toBe(false);
        };
        for (const each of steps) {
          if (each.do === 'run') {
            const entry = { share: { account: each.account, agent: each.agent }, abort: new AbortController() };
            waiting.push(entry);
            ran += 1;
            all.push(
              works.limiter
                .run(entry.share, entry.abort.signal, () => {
                  waiting.splice(waiting.indexOf(entry), 1);
                  return new Promise<void>((resolve) => {
                    const work = { share: entry.share, end: () => (works.open.splice(works.open.indexOf(work), 1), resolve()) };
                    works.open.push(work);
                    works.started.push(entry.share);
                  });
                })
                .catch(() => (gaveUp += 1)),
            );
          } else if (each.do === 'end') works.open[each.index % Math.max(1, works.open.length)]?.end();
          else {
            const entry = waiting[each.index % Math.max(1, waiting.length)];
            if (entry !== undefined) waiting.splice(waiting.indexOf(entry), 1);
            entry?.abort.abort(new Error('gone'));
          }
          await settle();
          check();
        }
        while (works.open.length > 0) await works.end();
        await Promise.all(all);
        expect(works.started.length + gaveUp).toBe(ran);
        expect(works.limiter.stats()).toMatchObject({ running: 0, waiting: 0, accounts: [] });
      }),
      { numRuns: 200 },
    );
  });

  it('starts an account’s next work after at most one of each other account, however much work those have', async () => {
    const backlog = fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd', 'e'), fc.integer({ min: 1, max: 20 }), { minKeys: 1 });
    await fc.assert(
      fc.asyncProperty(backlog, fc.integer({ min: 1, max: 4 }), async (accounts, limit) => {
        const works = new Works({ limit });
        const all = [
          ...Array.from({ length: limit }, () => works.run('first')),
          ...Object.entries(accounts).flatMap(([name, count]) => Array.from({ length: count }, () => works.run(name))),
        ];
        await settle();
        while (works.open.length > 0) await works.end();
        await Promise.all(all);
        const others = Object.keys(accounts).length - 1;
        const passedOver: Record<string, number> = {};
        for (const { account: served } of works.started.slice(limit)) {
          expect(passedOver[served] ?? 0).toBeLessThanOrEqual(others);
          for (const name of Object.keys(accounts)) passedOver[name] = name === served ? 0 : (passedOver[name] ?? 0) + 1;
        }
      }),
      { numRuns: 100 },
    );
  });
});
