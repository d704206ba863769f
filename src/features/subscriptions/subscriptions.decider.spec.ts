import fc from 'fast-check';

import type { Sealed } from '../../crypto/keyring.ts';
import { type SubscriptionCommand, subscriptionDecider, type SubscriptionState, wants } from './subscriptions.decider.ts';

const sealed: Sealed = { v: 1, key: 1, iv: 'iv', ct: 'ct' };
const now = new Date('2026-03-01T12:00:00.000Z');
const created: SubscriptionCommand = {
  type: 'CreateSubscription',
  accountId: 'acme',
  subscriptionId: 'one',
  host: 'hooks.example.com',
  url: sealed,
  secret: sealed,
  types: null,
  agentIds: null,
};

/** Returns the state after the commands; those that are refused change nothing. */
function after(...commands: SubscriptionCommand[]): SubscriptionState {
  let state: SubscriptionState = null;
  for (const command of commands)
    for (const event of subscriptionDecider.decide(command, state, now)) state = subscriptionDecider.evolve(state, event);
  return state;
}

describe('a subscription', () => {
  it('is created once by one request', () => {
    expect(subscriptionDecider.decide(created, after(created), now)).toEqual([]);
    expect(() => subscriptionDecider.decide(created, after(created, { type: 'DeleteSubscription', accountId: 'acme' }), now)).toThrow(
      expect.objectContaining({ code: 'invalid_state' }),
    );
  });

  it('records each thing that is done to it, and that it did', () => {
    const typesOf = (command: SubscriptionCommand, state: SubscriptionState) =>
      subscriptionDecider.decide(command, state, now).map(({ type }) => type);
    const off = after(created, { type: 'ChangeSubscription', accountId: 'acme', changes: { active: false } });
    expect(typesOf(created, null)).toEqual(['SubscriptionCreated']);
    expect(typesOf({ type: 'ChangeSubscription', accountId: 'acme', changes: { active: true } }, off)).toEqual(['SubscriptionChanged']);
    expect(typesOf({ type: 'DeleteSubscription', accountId: 'acme' }, off)).toEqual(['SubscriptionDeleted']);
    expect(typesOf({ type: 'RequestEventRedelivery', accountId: 'acme', eventId: 'e' }, off)).toEqual(['EventRedeliveryRequested']);
    expect(typesOf({ type: 'DeadLetterEvent', eventId: 'e', attempts: 6, reason: 'r' }, off)).toEqual(['EventDeadLettered']);
    expect(typesOf({ type: 'SwitchSubscriptionOff', failingSince: 'then' }, after(created))).toEqual(['SubscriptionSwitchedOff']);
    expect(typesOf({ type: 'SwitchSubscriptionOff', failingSince: 'then' }, off)).toEqual([]);
  });

  it('changes only what differs', () => {
    const change = { type: 'ChangeSubscription' as const, accountId: 'acme', changes: { types: null, active: true } };
    expect(subscriptionDecider.decide(change, after(created), now)).toEqual([]);
  });

  it('is unknown to other accounts, and to all after its end', () => {
    const asked = fc.constantFrom<SubscriptionCommand>(
      { type: 'ChangeSubscription', accountId: 'globex', changes: { active: false } },
      { type: 'DeleteSubscription', accountId: 'globex' },
      { type: 'RequestEventRedelivery', accountId: 'globex', eventId: 'e' },
    );
    const ended = after(created, { type: 'DeleteSubscription', accountId: 'acme' });
    fc.assert(
      fc.property(asked, fc.boolean(), (command, isEnded) => {
        const own = isEnded ? { ...command, accountId: 'acme' } : command;
        expect(() => subscriptionDecider.decide(own, isEnded ? ended : after(created), now)).toThrow(
          expect.objectContaining({ code: 'not_found' }),
        );
      }),
    );
  });

  it('that has ended records nothing of deliveries that were under way', () => {
    const ended = after(created, { type: 'DeleteSubscription', accountId: 'acme' });
    expect(subscriptionDecider.decide({ type: 'DeadLetterEvent', eventId: 'e', attempts: 6, reason: 'r' }, ended, now)).toEqual([]);
    expect(subscriptionDecider.decide({ type: 'SwitchSubscriptionOff', failingSince: 'then' }, ended, now)).toEqual([]);
  });
});

describe('the choice of a subscription', () => {
  const choice = fc.record({
    types: fc.option(fc.array(fc.string({ minLength: 1 }), { minLength: 1 })),
    agentIds: fc.option(fc.array(fc.uuid(), { minLength: 1 })),
  });

  it('holds every event that begins with one of its types and is of one of its agents', () => {
    fc.assert(
      fc.property(choice, fc.string(), fc.nat(), (chosen, rest, n) => {
        const type = `${chosen.types?.[n % chosen.types.length] ?? ''}${rest}`;
        const agentId = chosen.agentIds?.[n % chosen.agentIds.length] ?? null;
        expect(wants(chosen, { type, agentId })).toBe(true);
        expect(wants(chosen, { type, agentId: 'another' })).toBe(chosen.agentIds === null);
      }),
    );
  });
});
