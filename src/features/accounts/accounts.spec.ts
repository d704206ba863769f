import fc from 'fast-check';

import { type Account, accountDecider, agentFor, computerFor, type AccountCommand } from './aggregate/accounts.decider.ts';
import type { AccountEvent } from './aggregate/accounts.events.ts';
import { normalizeEmail } from './credentials/email.ts';
import { hashPassword, verifyPassword } from './credentials/passwords.ts';
import { SeatMap } from './aggregate/seat-map.rules.ts';

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
  it('is recorded from its start to its end, and changes nothing else in the account', () => {
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

describe('a seat of a computer', () => {
  const team = (computers?: number): AccountEvent => ({
    type: 'PlanAssigned',
    data: { plan: 'team', seats: 0, payment_method: true, ...(computers === undefined ? {} : { computers }) },
  });
  const takes = (computerId: string, endUserId: string): AccountCommand => ({ type: 'TakeComputerSeat', computerId, endUserId });
  const seated = (computer_id: string, end_user_id: string): AccountEvent => ({
    type: 'ComputerSeatTaken',
    data: { computer_id, end_user_id },
  });
  const freed = (computer_id: string): AccountEvent => ({ type: 'ComputerSeatReleased', data: { computer_id } });
  const release = (computerId: string): AccountCommand => ({ type: 'ReleaseComputerSeat', computerId });

  it('is one for each end user, whose computer answers every further request', () => {
    expect(decide([opened, team()], takes('c1', 'ana'))).toEqual([seated('c1', 'ana')]);
    const given = [opened, team(), seated('c1', 'ana')];
    expect(decide(given, takes('c2', 'ana'))).toEqual([]);
    expect(computerFor(stateAfter(given), 'ana')).toBe('c1');
    expect(decide(given, takes('c2', 'bob'))).toEqual([seated('c2', 'bob')]);
  });

  it('is free again after its release, which happens once', () => {
    const given = [opened, team(1), seated('c1', 'ana')];
    expect(() => decide(given, takes('c2', 'bob'))).toThrow(expect.objectContaining({ code: 'computer_limit' }));
    expect(decide(given, release('c2'))).toEqual([]);
    expect(decide(given, release('c1'))).toEqual([freed('c1')]);
    expect(computerFor(stateAfter([...given, freed('c1')]), 'ana')).toBeNull();
    expect(decide([...given, freed('c1')], takes('c2', 'bob'))).toEqual([seated('c2', 'bob')]);
    expect(decide([...given, freed('c1')], release('c1'))).toEqual([]);
  });

  it('needs a plan and a payment method, and no seat of an agent', () => {
    expect(() => decide([opened], takes('c1', 'ana'))).toThrow(expect.objectContaining({ code: 'plan_required' }));
    expect(() => decide([opened, plan(1, false)], takes('c1', 'ana'))).toThrow(expect.objectContaining({ code: 'plan_required' }));
    const state = stateAfter([opened, team(), seated('c1', 'ana')]);
    expect([state?.seats.size, state?.computers.size]).toEqual([0, 1]);
  });

  it('is one of 20 unless the plan says another number', () => {
    const twenty = Array.from({ length: 20 }, (_, index) => seated(`c${index}`, `user-${index}`));
    expect(() => decide([opened, team(), ...twenty], takes('c', 'ana'))).toThrow('All 20 computers');
    expect(decide([opened, team(21), ...twenty], takes('c', 'ana'))).toHaveLength(1);
    const assign = { type: 'AssignPlan' as const, name: 'team', seats: 0, paymentMethod: true };
    expect(decide([opened, team()], assign)).toEqual([]);
    expect(decide([opened, team(20)], assign)).toEqual([]);
    expect(decide([opened, team(21)], assign)).toEqual([team()]);
    expect(decide([opened, team()], { ...assign, computers: 21 })).toEqual([team(21)]);
  });

  it('never goes to two computers of one end user or beyond the plan, and snapshots keep it, whatever the order of commands', () => {
    const computer = fc.constantFrom('a', 'b', 'c', 'd', 'e');
    const command: fc.Arbitrary<AccountCommand> = fc.oneof(
      fc.tuple(computer, fc.constantFrom('x', 'y', 'z')).map(([id, user]) => takes(id, user)),
      computer.map(release),
    );
    fc.assert(
      fc.property(fc.array(command, { maxLength: 40 }), fc.integer({ min: 0, max: 3 }), (commands, computers) => {
        let events = [opened, team(computers)];
        for (const next of commands) events = [...events, ...tried(() => decide(events, next))];
        const state = stateAfter(events);
        const seats = [...(state?.computers ?? [])];
        expect(seats.length).toBeLessThanOrEqual(computers);
        expect(new Set(seats.map(([, { endUserId }]) => endUserId)).size).toBe(seats.length);
        for (const [id, { endUserId }] of seats) expect(computerFor(state, endUserId)).toBe(id);
        expect(state?.byEndUser.size).toBe(seats.length);
        const { toJson, fromJson } = accountDecider.snapshot!;
        const again = fromJson!(JSON.parse(JSON.stringify(toJson!(state))));
        expect(new Map(again!.computers)).toEqual(new Map(seats));
        expect(new Map(again!.byEndUser)).toEqual(new Map(state!.byEndUser));
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
