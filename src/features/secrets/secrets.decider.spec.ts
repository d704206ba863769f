import fc from 'fast-check';

import { fold, given, NOON, refusalOf } from '../../../test/support/decider-spec.ts';
import { SECRETS_MAX, secretsDecider, type SecretCommand, type SecretUsers } from './secrets.decider.ts';
import type { SecretEvent } from './secrets.events.ts';

const accountId = 'account-1';
const value = { v: 1 as const, key: 1, iv: 'aXY=', ct: 'Y3Q=' };
const mask = 'sk-a••••••••';
const nobody: SecretUsers = { agentIds: [], total: 0 };
const store = (name: string): SecretCommand => ({ type: 'StoreSecret', accountId, name, sealed: value, mask });
const remove = (name: string, users = nobody): SecretCommand => ({ type: 'RemoveSecret', accountId, name, users });
const stored = (name: string, at = NOON): SecretEvent => ({
  type: 'SecretStored',
  data: { account_id: accountId, name, value, mask, stored_at: at.toISOString() },
});
const removed = (name: string): SecretEvent => ({ type: 'SecretRemoved', data: { account_id: accountId, name } });
const secrets = (...events: SecretEvent[]) => given(secretsDecider, ...events);

describe('the secrets of an account', () => {
  it('are stored, replaced and removed by name', () => {
    secrets().when(store('openai')).then(stored('openai'));
    secrets(stored('openai')).when(store('openai')).then(stored('openai'));
    secrets(stored('openai')).when(remove('openai')).then(removed('openai'));
    secrets(stored('openai')).when(remove('other')).refuses('not_found');
    secrets(stored('openai'), removed('openai')).when(remove('openai')).refuses('not_found');
  });

  it('keep the time at which they were made when they are replaced, and have a new one after they were removed', () => {
    const later = new Date(NOON.getTime() + 60_000);
    const times = (...events: SecretEvent[]) => fold(secretsDecider, events).get('openai');
    expect(times(stored('openai'), stored('openai', later))).toMatchObject({
      createdAt: NOON.toISOString(),
      updatedAt: later.toISOString(),
    });
    expect(times(stored('openai'), removed('openai'), stored('openai', later))).toMatchObject({ createdAt: later.toISOString() });
  });

  it('are not removed while a variable refers to them, and the refusal names the agents', () => {
    const command = remove('openai', { agentIds: ['a', 'b'], total: 7 });
    secrets(stored('openai')).when(command).refuses('secret_in_use');
    const refusal = refusalOf(() => secretsDecider.decide(command, fold(secretsDecider, [stored('openai')]), NOON));
    expect([refusal?.message, refusal?.facts.members]).toEqual([
      'Variables of these agents take their values from the secret openai: a, b and 5 more.',
      { agent_ids: ['a', 'b'], used_by: 7 },
    ]);
  });

  it('are 100 at most; each of them can still be replaced', () => {
    const full = Array.from({ length: SECRETS_MAX }, (_, index) => stored(`a${index}`));
    secrets(...full)
      .when(store('b'))
      .refuses('invalid_request');
    secrets(...full)
      .when(store('a7'))
      .then(stored('a7'));
    secrets(...full, removed('a7'))
      .when(store('b'))
      .then(stored('b'));
  });

  it('are those that were stored last and not removed since, whatever happened before', () => {
    const names = fc.constantFrom('a', 'b', 'c');
    const act = fc.record({ name: names, removes: fc.boolean() });
    fc.assert(
      fc.property(fc.array(act, { maxLength: 30 }), (acts) => {
        const expected = new Set<string>();
        let state = secretsDecider.initialState();
        for (const { name, removes } of acts) {
          const command = removes ? remove(name) : store(name);
          if (removes && !expected.has(name)) {
            expect(refusalOf(() => secretsDecider.decide(command, state, NOON))?.code).toBe('not_found');
            continue;
          }
          state = secretsDecider.decide(command, state, NOON).reduce(secretsDecider.evolve, state);
          if (removes) expected.delete(name);
          else expected.add(name);
        }
        expect(new Set(state.keys())).toEqual(expected);
      }),
    );
  });
});
