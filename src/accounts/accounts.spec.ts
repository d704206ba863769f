import fc from 'fast-check';

import { type Account, accountDecider, agentFor, type AccountCommand } from './aggregate/accounts.decider.ts';
import type { AccountEvent } from './aggregate/accounts.events.ts';
import { normalizeEmail } from './credentials/email.ts';
import { hashPassword, verifyPassword } from './credentials/passwords.ts';
import { SeatMap } from './aggregate/seat-map.decider.ts';

const now = new Date('2026-01-01T00:00:00Z');

function stateAfter(events: AccountEvent[]): Account | null {
  return events.reduce(accountDecider.evolve, accountDecider.initialState());
}
const decide = (given: AccountEvent[], command: AccountCommand) => accountDecider.decide(command, stateAfter(given), now);

const opened: AccountEvent = { type: 'AccountOpened', data: { name: 'Acme', role: 'member' } };
const plan = (seats: number, payment_method = true): AccountEvent => ({
  type: 'PlanAssigned',
  data: { plan: 'team', seats, payment_method },
});
const taken = (agent_id: string, external_id: string | null = null): AccountEvent => ({
  type: 'SeatTaken',
  data: { agent_id, external_id },
});
const released = (agent_id: string): AccountEvent => ({ type: 'SeatReleased', data: { agent_id } });
const take = (agentId: string, externalId: string | null = null): AccountCommand => ({ type: 'TakeSeat', agentId, externalId });

describe('an account', () => {
  it('is opened once', () => {
    expect(decide([], { type: 'OpenAccount', name: 'Acme', role: 'member' })).toEqual([opened]);
    expect(decide([opened], { type: 'OpenAccount', name: 'Other', role: 'admin' })).toEqual([]);
  });

  it('that was never opened gets no plan and no seat', () => {
    expect(() => decide([], take('a'))).toThrow('no such account');
    expect(() => decide([], { type: 'AssignPlan', name: 'team', seats: 1, paymentMethod: true })).toThrow('no such account');
  });

  it('gets another plan, and no event if the plan is the same', () => {
    expect(decide([opened], { type: 'AssignPlan', name: 'team', seats: 3, paymentMethod: true })).toEqual([plan(3)]);
    expect(decide([opened, plan(3)], { type: 'AssignPlan', name: 'team', seats: 3, paymentMethod: true })).toEqual([]);
    expect(decide([opened, plan(3)], { type: 'AssignPlan', name: 'team', seats: 0, paymentMethod: true })).toEqual([plan(0)]);
  });
});

describe('a session', () => {
  it('is recorded from its start to its end, and changes nothing else of the account', () => {
    const signedIn: AccountEvent = { type: 'SignedIn', data: { session_id: 's', expires_at: '2026-01-02T00:00:00.000Z' } };
    const signedOut: AccountEvent = { type: 'SignedOut', data: { session_id: 's' } };
    expect(decide([opened], { type: 'SignIn', sessionId: 's', expiresAt: '2026-01-02T00:00:00.000Z' })).toEqual([signedIn]);
    expect(decide([opened, signedIn], { type: 'SignOut', sessionId: 's' })).toEqual([signedOut]);
    expect(stateAfter([opened, signedIn, signedOut])).toEqual(stateAfter([opened]));
  });
});

describe('a seat', () => {
  it('is taken and its first month charged in one decision', () => {
    expect(decide([opened, plan(1)], take('a', 'user-7'))).toEqual([
      taken('a', 'user-7'),
      { type: 'FirstMonthCharged', data: { agent_id: 'a' } },
    ]);
  });

  it('needs a plan and a payment method', () => {
    expect(() => decide([opened], take('a'))).toThrow(expect.objectContaining({ code: 'plan_required' }));
    expect(() => decide([opened, plan(5, false)], take('a'))).toThrow(expect.objectContaining({ code: 'plan_required' }));
  });

  it('is refused if all are taken, and is free again after a release', () => {
    const given = [opened, plan(1), taken('a')];
    expect(() => decide(given, take('b'))).toThrow(expect.objectContaining({ code: 'seat_limit' }));
    expect(decide([...given, released('a')], take('b'))).toHaveLength(2);
  });

  it('is taken once by an agent, however often it is requested', () => {
    expect(decide([opened, plan(1), taken('a')], take('a'))).toEqual([]);
    expect(decide([opened, plan(1), taken('a')], { type: 'ReleaseSeat', agentId: 'b' })).toEqual([]);
  });

  it('is bound to an external id until it is released', () => {
    const given = [opened, plan(2), taken('a', 'user-7')];
    expect(decide(given, take('b', 'user-7'))).toEqual([]);
    expect(agentFor(stateAfter(given), 'user-7')).toBe('a');
    expect(agentFor(stateAfter([...given, released('a')]), 'user-7')).toBeNull();
  });

  it('is never given out beyond the plan, whatever the order of commands', () => {
    const agent = fc.constantFrom('a', 'b', 'c', 'd', 'e');
    const command: fc.Arbitrary<AccountCommand> = fc.oneof(
      fc.record({
        type: fc.constant('TakeSeat' as const),
        agentId: agent,
        externalId: fc.option(fc.constantFrom('x', 'y'), { nil: null }),
      }),
      fc.record({ type: fc.constant('ReleaseSeat' as const), agentId: agent }),
    );
    fc.assert(
      fc.property(fc.array(command, { maxLength: 40 }), fc.integer({ min: 0, max: 4 }), (commands, seats) => {
        let events = [opened, plan(seats)];
        const seated = new Map<string, string | null>();
        for (const next of commands) {
          const follow = tried(() => decide(events, next));
          for (const event of follow) {
            if (event.type === 'SeatTaken') seated.set(event.data.agent_id, event.data.external_id);
            if (event.type === 'SeatReleased') seated.delete(event.data.agent_id);
          }
          events = [...events, ...follow];
          expect(seated.size).toBeLessThanOrEqual(seats);
          const external = [...seated.values()].filter((id) => id !== null);
          expect(new Set(external).size).toBe(external.length);
          expect(stateAfter(events)?.seats.size).toBe(seated.size);
        }
      }),
    );
  });
});

function tried(work: () => AccountEvent[]): AccountEvent[] {
  try {
    return work();
  } catch {
    return [];
  }
}

describe('the map of seats', () => {
  it('behaves like a map, and leaves every earlier version unchanged', () => {
    const change = fc.tuple(fc.constantFrom('set', 'delete'), fc.string({ maxLength: 3 }), fc.integer());
    fc.assert(
      fc.property(fc.array(change, { maxLength: 200 }), (changes) => {
        const model = new Map<string, number>();
        let map = SeatMap.empty<number>();
        for (const [kind, key, value] of changes) {
          const before = { map, size: map.size, value: map.get(key) };
          if (kind === 'set') model.set(key, value);
          else model.delete(key);
          map = kind === 'set' ? map.set(key, value) : map.delete(key);
          expect([before.map.size, before.map.get(key)]).toEqual([before.size, before.value]);
        }
        expect(map.size).toBe(model.size);
        for (const [, key] of changes) expect(map.get(key)).toBe(model.get(key));
      }),
    );
  });
});

describe('a password', () => {
  it('is accepted, and no other is', async () => {
    const stored = await hashPassword('correct horse battery');
    expect(stored).not.toContain('horse');
    expect(await hashPassword('correct horse battery')).not.toBe(stored);
    expect(await verifyPassword('correct horse battery', stored)).toBe(true);
    expect(await verifyPassword('correct horse battery!', stored)).toBe(false);
    expect(await verifyPassword('correct horse battery', null)).toBe(false);
  });
});

describe('an address', () => {
  it('is the same in any case and any Unicode form', () => {
    expect(normalizeEmail(' Zoe\u0308@Example.COM ')).toBe('zo\u00eb@example.com');
  });
});
