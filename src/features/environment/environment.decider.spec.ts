import { fold, given, NOON } from '../../../test/support/decider-spec.ts';
import { maskOf } from '../secrets/secret-values.rules.ts';
import { environmentDecider, keyProblem, VARIABLES_MAX, type EnvironmentCommand, type Value } from './environment.decider.ts';
import type { EnvironmentEvent } from './environment.events.ts';

const accountId = 'account-1';
const sealed = { v: 1 as const, key: 1, iv: 'aXY=', ct: 'Y3Q=' };
const value = (plain: string): Value => ({ plain, sealed, mask: maskOf(plain) });
const born = { type: 'AgentProvisioned', data: { account_id: accountId } } as unknown as EnvironmentEvent;
const deletionRequested = { type: 'AgentDeletionRequested', data: {} } as unknown as EnvironmentEvent;
const plain = (key: string, text: string): EnvironmentEvent => ({
  type: 'VariableSet',
  data: { key, is_secret: false, value: text, sealed: null, mask: null, set_at: NOON.toISOString() },
});
const secret = (key: string, mask: string): EnvironmentEvent => ({
  type: 'VariableSet',
  data: { key, is_secret: true, value: null, sealed, mask, set_at: NOON.toISOString() },
});
const environment = (...events: EnvironmentEvent[]) => given(environmentDecider, born, ...events);
const set = (key: string, text: string, isSecret = false): EnvironmentCommand => ({
  type: 'SetVariable',
  accountId,
  key,
  isSecret,
  value: value(text),
});
const replace = (key: string, text: string): EnvironmentCommand => ({ type: 'ReplaceVariable', accountId, key, value: value(text) });
const remove = (key: string): EnvironmentCommand => ({ type: 'RemoveVariable', accountId, key });
const link = (key: string, name: string, mustExist = false): EnvironmentCommand => ({
  type: 'LinkVariable',
  accountId,
  key,
  secret: name,
  mustExist,
});
const linked = (key: string, name: string): EnvironmentEvent => ({
  type: 'VariableLinked',
  data: { account_id: accountId, key, secret: name, set_at: NOON.toISOString() },
});

describe('setting a variable', () => {
  it('stores a readable value in plain text, and a secret only encrypted', () => {
    environment().when(set('A', 'one')).then(plain('A', 'one'));
    environment()
      .when(set('A', 'a-very-long-secret', true))
      .then(secret('A', 'a-ve••••••••'));
  });

  it('changes nothing if the value is known to be the same', () => {
    environment(plain('A', 'one')).when(set('A', 'one')).then();
    environment(plain('A', 'one')).when(set('A', 'two')).then(plain('A', 'two'));
    environment(secret('A', '••••••••'))
      .when(set('A', 'one', true))
      .then(secret('A', '••••••••'));
  });

  it('may make a value secret, and never a secret readable', () => {
    environment(plain('A', 'one'))
      .when(set('A', 'one', true))
      .then(secret('A', '••••••••'));
    environment(secret('A', '••••••••')).when(set('A', 'one')).refuses('invalid_request');
    environment(secret('A', '••••••••'), { type: 'VariableRemoved', data: { key: 'A' } })
      .when(set('A', 'one'))
      .then(plain('A', 'one'));
  });

  it('refuses more than 200, but still changes existing ones', () => {
    const full = Array.from({ length: VARIABLES_MAX }, (_, index) => plain(`A${index}`, 'x'));
    environment(...full)
      .when(set('B', 'x'))
      .refuses('invalid_request');
    environment(...full)
      .when(set('A0', 'y'))
      .then(plain('A0', 'y'));
  });

  it('refuses more than a megabyte of them together, but still makes existing ones smaller', () => {
    const part = 'x'.repeat(32_000);
    const full = Array.from({ length: 32 }, (_, index) => plain(`A${index}`, part));
    environment(...full)
      .when(set('B', part))
      .refuses('invalid_request');
    environment(...full, plain('B', 'short'))
      .when(replace('B', part))
      .refuses('invalid_request');
    environment(...full)
      .when(set('B', 'x'))
      .then(plain('B', 'x'));
    environment(...full, plain('B', part))
      .when(replace('B', part.slice(1)))
      .then(plain('B', part.slice(1)));
  });

  it('treats names with a meaning in JavaScript like any other', () => {
    environment().when(replace('__proto__', 'x')).refuses('env_var_not_found');
    environment().when(set('constructor', 'x')).then(plain('constructor', 'x'));
  });
});

describe('another value', () => {
  it('leaves the variable secret or readable as it was', () => {
    environment(plain('A', 'one')).when(replace('A', 'two')).then(plain('A', 'two'));
    environment(secret('A', '••••••••')).when(replace('A', 'two')).then(secret('A', '••••••••'));
    environment().when(replace('A', 'two')).refuses('env_var_not_found');
  });
});

describe('a variable that refers to a secret of the account', () => {
  it('is made, changed and removed like any other', () => {
    environment().when(link('A', 'openai')).then(linked('A', 'openai'));
    environment(linked('A', 'openai')).when(link('A', 'openai')).then();
    environment(linked('A', 'openai')).when(link('A', 'other')).then(linked('A', 'other'));
    environment(linked('A', 'openai'))
      .when(remove('A'))
      .then({ type: 'VariableRemoved', data: { key: 'A' } });
    environment()
      .when(link('A', 'openai', true))
      .refuses('env_var_not_found');
    environment(plain('A', 'one'))
      .when(link('A', 'openai', true))
      .then(linked('A', 'openai'));
  });

  it('is secret, and gets a value of its own only as a secret', () => {
    expect(fold(environmentDecider, [born, plain('A', 'one'), linked('A', 'openai')]).variables.get('A')).toMatchObject({
      isSecret: true,
      secret: 'openai',
      value: null,
    });
    environment(linked('A', 'openai')).when(set('A', 'one')).refuses('invalid_request');
    environment(linked('A', 'openai')).when(replace('A', 'one')).then(secret('A', '••••••••'));
    expect(fold(environmentDecider, [born, linked('A', 'openai'), secret('A', '••••••••')]).variables.get('A')?.secret).toBeNull();
  });

  it('counts towards the 200', () => {
    const full = Array.from({ length: VARIABLES_MAX }, (_, index) => linked(`A${index}`, 'openai'));
    environment(...full)
      .when(link('B', 'openai'))
      .refuses('invalid_request');
    environment(...full)
      .when(link('A0', 'other'))
      .then(linked('A0', 'other'));
  });
});

describe('removing', () => {
  it('requires that the variable exists', () => {
    environment(plain('A', 'one'))
      .when(remove('A'))
      .then({ type: 'VariableRemoved', data: { key: 'A' } });
    environment().when(remove('A')).refuses('env_var_not_found');
  });
});

it("is refused for a stranger's agent, an unknown one, and one that is being deleted", () => {
  for (const command of [set('A', 'x'), replace('A', 'x'), link('A', 'x'), remove('A')]) {
    environment(plain('A', 'one'))
      .when({ ...command, accountId: 'account-2' })
      .refuses('agent_not_found');
    given(environmentDecider).when(command).refuses('agent_not_found');
    environment(plain('A', 'one'), deletionRequested).when(command).refuses('agent_not_found');
  }
});

describe('the name of a variable', () => {
  it.each(['A', '_a9', 'a'.repeat(128), 'MOORINGX', 'PORTS', 'port'])('%s is a valid name', (key) => expect(keyProblem(key)).toBeNull());
  it.each(['', '9a', 'a-b', 'a b', 'é', 'A=', 'a'.repeat(129), 'PORT', 'MOORING_X', 'MOORING_', 'A\n'])('%j is not a valid name', (key) =>
    expect(keyProblem(key)).not.toBeNull(),
  );
});
