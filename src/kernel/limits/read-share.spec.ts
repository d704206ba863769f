import { ReadShare } from './read-share.ts';

/** Reads for as long as it is let, and counts. */
function flood(share: ReadShare, account: string, signal: AbortSignal) {
  const count = { read: 0 };
  const reader = share.reader(account, AbortSignal.any([signal]));
  void (async () => {
    while (!signal.aborted) {
      const pause = reader(1);
      if (pause !== null) await pause;
      else if (count.read % 50 === 0) await Promise.resolve();
      count.read += 1;
    }
  })();
  return count;
}

const sum = (counts: { read: number }[]) => counts.reduce((all, { read }) => all + read, 0);

describe('the output that is read', () => {
  let now: number;
  let over: AbortController;

  beforeEach(() => {
    now = 1_000;
    over = new AbortController();
    jest.useFakeTimers({ doNotFake: ['performance'] });
    jest.spyOn(performance, 'now').mockImplementation(() => now);
  });

  afterEach(() => {
    over.abort();
    jest.restoreAllMocks();
    jest.useRealTimers();
  });

  /** Lets that much time pass, in ms. */
  async function pass(ms: number): Promise<void> {
    for (let at = 0; at < ms; at += 50) {
      now += 50;
      await jest.advanceTimersByTimeAsync(50);
    }
  }

  it('is bounded for an account, however many of its containers flood', async () => {
    const share = new ReadShare({ perSecond: 4_000, accountPart: 1 / 2, atATime: 100 });
    const floods = Array.from({ length: 50 }, () => flood(share, 'bad', over.signal));
    await pass(10_000);
    // The allowance of the first second, and of each that passed; each reader may hold 100 lines that it has not read.
    expect(sum(floods)).toBeGreaterThan(15_000);
    expect(sum(floods)).toBeLessThanOrEqual(2_000 * 11 + 100 * 51);
    // The containers take turns, after the first of them had the first second's.
    const each = floods.map(({ read }) => read);
    expect(Math.max(...each) - Math.min(...each)).toBeLessThanOrEqual(2_500);
  });

  it('is bounded for all accounts together, and shared among them', async () => {
    const share = new ReadShare({ perSecond: 4_000, accountPart: 1 / 2, atATime: 100 });
    const accounts = Array.from({ length: 8 }, (_, n) => flood(share, `account ${n}`, over.signal));
    const crowd = Array.from({ length: 20 }, () => flood(share, 'a crowd', over.signal));
    await pass(20_000);
    expect(sum([...accounts, ...crowd])).toBeLessThanOrEqual(4_000 * 21 + 100 * 29);
    for (const { read } of accounts) expect(read).toBeGreaterThan(sum(crowd) / 2);
  });

  it('is not held up by the floods of others', async () => {
    const share = new ReadShare({ perSecond: 4_000, accountPart: 1 / 2, atATime: 100 });
    for (let n = 0; n < 50; n++) flood(share, 'bad', over.signal);
    await pass(5_000);
    const good = flood(share, 'good', over.signal);
    await pass(1_000);
    expect(good.read).toBeGreaterThan(1_500);
  });

  it('lets a reader go whose signal aborts while it waits', async () => {
    const share = new ReadShare({ perSecond: 100, accountPart: 1, atATime: 100 });
    const reader = share.reader('bad', over.signal);
    expect(reader(1)).toBe(null);
    const pause = reader(1_000) ?? reader(1_000);
    expect(pause).not.toBe(null);
    over.abort();
    await pause;
  });
});
