import fc from 'fast-check';

import { type Claim, type Priority, Slots } from './slots.ts';

class Harbour {
  readonly granted: Claim[] = [];
  readonly slots: Slots;

  constructor(limit: number) {
    this.slots = new Slots(limit);
  }

  claim(account: string, priority: Priority = 'signal'): Claim {
    const claim: Claim = { account, priority, phase: 'idle', since: 0, place: null, onGranted: () => this.granted.push(claim) };
    return claim;
  }

  request(account: string, priority: Priority = 'signal', ahead = false): Claim {
    const claim = this.claim(account, priority);
    this.slots.request(claim, ahead);
    return claim;
  }

  /** Releases slots until none is held. */
  drain(): void {
    for (let held = this.held(); held !== undefined; held = this.held()) this.slots.release(held);
  }

  held(): Claim | undefined {
    return this.granted.find(({ phase }) => phase === 'held');
  }

  order(): string {
    return this.granted.map(({ account, priority }) => (priority === 'signal' ? account : account.toUpperCase())).join('');
  }
}

describe('the slots of a saga', () => {
  it('go to each account in turn, and within an account in the order of the requests', () => {
    const harbour = new Harbour(1);
    for (const account of 'aaaabbc') harbour.request(account);
    harbour.drain();
    expect(harbour.order()).toBe('aabcaba');
  });

  it('go to signals before reminders', () => {
    const harbour = new Harbour(1);
    harbour.request('a');
    for (const account of 'bb') harbour.request(account, 'reminder');
    for (const account of 'cc') harbour.request(account);
    harbour.drain();
    expect(harbour.order()).toBe('accBB');
  });

  it('go to a reminder now and then, however many signals come', () => {
    const harbour = new Harbour(1);
    harbour.request('a');
    harbour.request('b', 'reminder');
    for (let n = 0; n < 100; n += 1) harbour.request('a');
    harbour.drain();
    expect(harbour.order().indexOf('B')).toBe(16);
  });

  it('are never all held by reminders, so that a signal finds one free', () => {
    const harbour = new Harbour(4);
    for (let n = 0; n < 10; n += 1) harbour.request('a', 'reminder');
    expect(harbour.order()).toBe('AA');
    harbour.request('b');
    expect(harbour.order()).toBe('AAb');
  });

  it('go to work in progress before new work of the same account', () => {
    const harbour = new Harbour(1);
    for (const account of 'aaab') harbour.request(account);
    const goesOn = harbour.request('a', 'signal', true);
    harbour.drain();
    expect(harbour.granted.indexOf(goesOn)).toBe(1);
    expect(harbour.order()).toBe('aabaa');
  });

  it('go immediately to a claim that becomes a signal, and not to one that was withdrawn', () => {
    const harbour = new Harbour(1);
    const first = harbour.request('a');
    const [given, raised] = [harbour.request('b', 'reminder'), harbour.request('c', 'reminder')];
    harbour.request('d');
    harbour.slots.reclassify(raised, 'c', 'signal');
    harbour.slots.release(given);
    expect(harbour.slots.waiting).toEqual({ signal: 2, reminder: 0 });
    harbour.slots.release(first);
    harbour.drain();
    expect(harbour.order()).toBe('adc');
  });

  it('are counted, with the wait of the oldest request', () => {
    const harbour = new Harbour(1);
    const first = harbour.request('a');
    expect(harbour.slots.oldestWaitMs).toBe(0);
    const second = harbour.request('a');
    second.since -= 5_000;
    harbour.request('b', 'reminder');
    expect(harbour.slots.oldestWaitMs).toBeGreaterThanOrEqual(5_000);
    expect([harbour.slots.working, harbour.slots.waiting]).toEqual([1, { signal: 1, reminder: 1 }]);
    harbour.slots.release(first);
    harbour.drain();
    expect([harbour.slots.working, harbour.slots.waiting, harbour.slots.oldestWaitMs]).toEqual([0, { signal: 0, reminder: 0 }, 0]);
  });

  it('pass over an account that waits at most once for each other account that does', () => {
    const backlogs = fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd', 'e'), fc.integer({ min: 1, max: 30 }), { minKeys: 1 });
    fc.assert(
      fc.property(
        backlogs,
        fc.constantFrom<Priority>('signal', 'reminder'),
        fc.integer({ min: 1, max: 4 }),
        (accounts, priority, limit) => {
          const harbour = new Harbour(limit);
          for (let n = 0; n < limit; n += 1) harbour.request('first');
          for (const [account, count] of Object.entries(accounts)) for (let n = 0; n < count; n += 1) harbour.request(account, priority);
          harbour.drain();
          const passedOver: Record<string, number> = {};
          for (const { account: served } of harbour.granted.slice(limit)) {
            expect(passedOver[served] ?? 0).toBeLessThanOrEqual(Object.keys(accounts).length - 1);
            for (const account of Object.keys(accounts)) passedOver[account] = account === served ? 0 : (passedOver[account] ?? 0) + 1;
          }
        },
      ),
    );
  });
});
