import fc from 'fast-check';

import { AccountCounter, type Limits, type Share, sharesOf } from './account-counter.ts';

describe('a share of a whole', () => {
  it('is a quarter for an account, or the part that is given, and at least one', () => {
    expect(sharesOf(128)).toEqual({ all: 128, account: 32 });
    expect(sharesOf(1)).toEqual({ all: 1, account: 1 });
    expect(sharesOf(2_000, { agent: 1 / 10 })).toEqual({ all: 2_000, account: 500, agent: 200 });
    expect(sharesOf(3, { account: 1 / 2 })).toEqual({ all: 3, account: 2 });
    // 525 × (1 / 75) is a little more than 7.
    expect(sharesOf(525, { account: 1 / 75 })).toEqual({ all: 525, account: 7 });
  });

  it('is as many as it has to be, and no more, whatever the whole and the part are', () => {
    const whole = fc.integer({ min: 1, max: 100_000 });
    fc.assert(
      fc.property(whole, fc.integer({ min: 1, max: 200 }), (all, divisor) => {
        const { account } = sharesOf(all, { account: 1 / divisor });
        expect(account * divisor).toBeGreaterThanOrEqual(all);
        expect((account - 1) * divisor).toBeLessThan(all);
      }),
    );
  });
});

describe('a counter by account', () => {
  it('names the narrowest limit that leaves no room', () => {
    const counter = new AccountCounter({ all: 3, account: 2, agent: 1 });
    counter.acquire({ account: 'a', agent: '1' });
    expect(counter.lacking({ account: 'a', agent: '1' })).toBe('agent');
    expect(counter.lacking({ account: 'a', agent: '2' })).toBeNull();
    counter.acquire({ account: 'a', agent: '2' });
    expect(counter.lacking({ account: 'a', agent: '3' })).toBe('account');
    counter.acquire({ account: 'b', agent: '1' });
    expect(counter.lacking({ account: 'c', agent: '1' })).toBe('all');
    expect(counter.lacking({ account: 'c', agent: '1' }, 0)).toBeNull();
  });

  it('counts what is acquired beyond a limit, and lists the accounts that have the most first', () => {
    const counter = new AccountCounter({ all: 1 });
    counter.add({ account: 'a' }, 2);
    counter.add({ account: 'b' }, 5);
    expect([counter.all, counter.of('a'), counter.of('c')]).toEqual([7, 2, 0]);
    expect(counter.byAccount()).toEqual([
      ['b', 5],
      ['a', 2],
    ]);
  });

  it('bounds an account, or an agent, without a bound on the whole', () => {
    const counter = new AccountCounter({ account: 2 });
    for (let n = 0; n < 50; n += 1) counter.acquire({ account: `account ${n}` });
    const release = counter.tryAcquire({ account: 'account 0' });
    expect(counter.tryAcquire({ account: 'account 0' })).toBeNull();
    release?.();
    release?.();
    expect(counter.of('account 0')).toBe(1);
  });

  const account = fc.constantFrom('a', 'b', 'c');
  const agent = fc.constantFrom('1', '2', undefined);
  const step = fc.oneof(
    { weight: 3, arbitrary: fc.record({ account, agent, amount: fc.nat(3) }) },
    { weight: 2, arbitrary: fc.record({ releases: fc.nat(20) }) },
  );
  const limits: fc.Arbitrary<Limits> = fc.record({ all: fc.nat(8), account: fc.nat(6), agent: fc.nat(4) }, { requiredKeys: [] });

  it('never has more than its limits, refuses nothing below them, and keeps nothing of what was given back', () => {
    fc.assert(
      fc.property(limits, fc.array(step, { maxLength: 60 }), (bounds, steps) => {
        const counter = new AccountCounter(bounds);
        const held: { share: Share; amount: number; release: () => void }[] = [];
        const sum = (fits: (share: Share) => boolean) => held.reduce((all, { share, amount }) => all + (fits(share) ? amount : 0), 0);
        for (const each of steps) {
          if ('releases' in each) {
            const [given] = held.splice(each.releases % Math.max(1, held.length), 1);
            given?.release();
            given?.release();
            continue;
          }
          const { amount, ...share } = each;
          const ofAccount = sum((other) => other.account === share.account);
          const ofAgent = sum((other) => other.account === share.account && other.agent === share.agent);
          const hasRoom =
            sum(() => true) + amount <= (bounds.all ?? Infinity) &&
            ofAccount + amount <= (bounds.account ?? Infinity) &&
            ofAgent + amount <= (bounds.agent ?? Infinity);
          const release = counter.tryAcquire(share, amount);
          expect(release !== null).toBe(hasRoom);
          if (release !== null) held.push({ share, amount, release });
          expect(counter.all).toBe(sum(() => true));
          expect(counter.of(share.account)).toBe(sum((other) => other.account === share.account));
        }
        for (const { release } of held) release();
        expect([counter.all, counter.byAccount()]).toEqual([0, []]);
      }),
    );
  });
});
