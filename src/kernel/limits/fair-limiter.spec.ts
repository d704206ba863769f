import fc from 'fast-check';

import type { Limits, Share } from './account-counter.ts';
import { FairLimiter } from './fair-limiter.ts';

/** Runs work in a limiter that ends when the test ends it. */
class Works {
  readonly started: Share[] = [];
  readonly open: { share: Share; end(error?: Error): void }[] = [];
  readonly limiter: FairLimiter;

  constructor(limits: Limits) {
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
    const works = new Works({ all: 2 });
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
    const works = new Works({ all: 1 });
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
    const works = new Works({ all: 10, account: 3, agent: 2 });
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

  it('tells work that does not start at once how much of its account runs, and how much waits before it', async () => {
    const limiter = new FairLimiter({ all: 3, account: 2 });
    const never = new AbortController();
    const told: unknown[] = [];
    const run = (account: string, agent: string) =>
      void limiter
        .run(
          { account, agent },
          never.signal,
          () => new Promise(() => undefined),
          (wait) => told.push([account, agent, wait]),
        )
        .catch(() => undefined);
    for (const agent of ['a', 'b', 'c', 'd']) run('acme', agent);
    run('other', 'a');
    run('other', 'b');
    expect(told).toEqual([
      ['acme', 'c', { running: 2, before: 0 }],
      ['acme', 'd', { running: 2, before: 1 }],
      ['other', 'b', { running: 1, before: 0 }],
    ]);
    never.abort();
  });

  it('removes waiting work whose signal aborts, and starts none whose signal has aborted', async () => {
    const works = new Works({ all: 1 });
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
    const works = new Works({ all: 1 });
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
    all: fc.integer({ min: 1, max: 4 }),
    account: fc.integer({ min: 1, max: 3 }),
    agent: fc.integer({ min: 1, max: 2 }),
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
            works.open.length < bounds.all &&
            open((other) => other.account === share.account) < bounds.account &&
            open((other) => other.account === share.account && other.agent === share.agent) < bounds.agent;
          expect(works.open.length).toBeLessThanOrEqual(bounds.all);
          for (const { share } of works.open) {
            expect(open((other) => other.account === share.account)).toBeLessThanOrEqual(bounds.account);
            expect(open((other) => other.account === share.account && other.agent === share.agent)).toBeLessThanOrEqual(bounds.agent);
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
        const works = new Works({ all: limit });
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

const never = new AbortController().signal;
const settled = () => new Promise((resolve) => setImmediate(resolve));
const [a, b, c] = [{ account: 'a' }, { account: 'b' }, { account: 'c' }];

describe('the fair limiter of bytes', () => {
  it('grants bytes at once while they are free, and later as soon as enough are released', async () => {
    const budget = new FairLimiter({ all: 10, account: 10 });
    const give = await budget.acquire(a, never, 8);
    let isTaken = false;
    const second = budget.acquire(a, never, 4).then((back) => ((isTaken = true), back));
    await settled();
    expect(isTaken).toBe(false);
    give();
    give();
    (await second)();
    expect(budget.inUse).toBe(0);
  });

  it('leaves bytes for others, whatever one account requests', async () => {
    const budget = new FairLimiter({ all: 10, account: 5 });
    await Promise.all([
      budget.acquire({ account: 'greedy' }, never, 5),
      Promise.race([budget.acquire({ account: 'greedy' }, never, 5), settled()]),
    ]);
    const give = await budget.acquire({ account: 'modest' }, never, 5);
    give();
    expect(budget.inUse).toBe(5);
  });

  it('grants a request beyond an account’s limit when the account holds nothing else', async () => {
    const budget = new FairLimiter({ all: 10, account: 5 });
    const give = await budget.acquire(a, never, 1_000);
    expect(budget.inUse).toBe(5);
    give();
  });

  it('does not let small requests overtake a large one for ever', async () => {
    const budget = new FairLimiter({ all: 10, account: 10 });
    const first = await budget.acquire(a, never, 6);
    const order: string[] = [];
    const large = budget.acquire(b, never, 10).then((give) => (order.push('large'), give()));
    const small = budget.acquire(c, never, 1).then((give) => (order.push('small'), give()));
    await settled();
    expect(order).toEqual([]);
    first();
    await Promise.all([large, small]);
    expect(order).toEqual(['large', 'small']);
  });

  it('serves what waits behind a large request as soon as that is aborted', async () => {
    const budget = new FairLimiter({ all: 10 });
    await budget.acquire(a, never, 6);
    const gone = new AbortController();
    const large = budget.acquire(b, gone.signal, 10);
    const small = budget.acquire(c, never, 1);
    gone.abort(new Error('enough'));
    await expect(large).rejects.toThrow('enough');
    (await small)();
    expect(budget.inUse).toBe(6);
  });

  it('gives bytes without a wait only if they are free, and nobody waits whom they would serve', async () => {
    const budget = new FairLimiter({ all: 10, account: 6 });
    const give = await budget.acquire(a, never, 6);
    expect([budget.lacking(a, 1), budget.lacking(b, 5), budget.lacking(b, 4)]).toEqual(['account', 'all', null]);
    expect(budget.tryAcquire(b, 5)).toBeNull();
    const own = budget.acquire(a, never, 1);
    const kept = budget.tryAcquire(b, 2);
    expect(kept).not.toBeNull();
    const others = budget.acquire(c, never, 3);
    expect(budget.tryAcquire(b, 1)).toBeNull();
    give();
    for (const release of [...(await Promise.all([own, others])), kept]) release?.();
    expect(budget.inUse).toBe(0);
  });

  it('removes a request that is aborted', async () => {
    const budget = new FairLimiter({ all: 1, account: 1 });
    const give = await budget.acquire(a, never, 1);
    const impatient = new AbortController();
    const waiting = budget.acquire(a, impatient.signal, 1);
    impatient.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    await expect(budget.acquire(a, impatient.signal, 1)).rejects.toThrow('enough');
    give();
    expect(budget.inUse).toBe(0);
  });

  it('never exceeds its limits, serves every request that was not aborted, and keeps the order within an agent', async () => {
    const wish = fc.record({
      account: fc.constantFrom('a', 'b', 'c'),
      agent: fc.constantFrom('1', '2'),
      bytes: fc.integer({ min: 0, max: 12 }),
      isAborted: fc.boolean(),
    });
    const bounds = fc.record({ all: fc.constant(10), account: fc.constantFrom(6, 10), agent: fc.constantFrom(4, 10) });
    await fc.assert(
      fc.asyncProperty(fc.array(wish, { maxLength: 40 }), bounds, async (wishes, limits) => {
        const budget = new FairLimiter(limits);
        const served: number[] = [];
        const gone = wishes.map(() => new AbortController());
        let most = 0;
        const all = wishes.map(async ({ account, agent, bytes }, index) => {
          const give = await budget.acquire({ account, agent }, (gone[index] as AbortController).signal, bytes);
          served.push(index);
          most = Math.max(most, budget.inUse);
          for (const { account: name, running } of budget.stats().accounts) expect([name, running <= limits.account]).toEqual([name, true]);
          await settled();
          give();
        });
        await settled();
        wishes.forEach(({ isAborted }, index) => isAborted && gone[index]?.abort(new Error('gone')));
        const outcomes = await Promise.allSettled(all);
        expect(most).toBeLessThanOrEqual(10);
        expect(budget.stats()).toEqual({ running: 0, waiting: 0, oldestWaitMs: 0, accounts: [] });
        expect(budget.tryAcquire({ account: 'd' }, 10)).not.toBeNull();
        for (const [index, { status }] of outcomes.entries()) if (status === 'rejected') expect(wishes[index]?.isAborted).toBe(true);
        for (const name of ['a1', 'a2', 'b1', 'b2', 'c1', 'c2']) {
          const order = served.filter((index) => `${wishes[index]?.account}${wishes[index]?.agent}` === name);
          expect(order).toEqual(order.toSorted((one, other) => one - other));
        }
      }),
      { numRuns: 200 },
    );
  });
});
