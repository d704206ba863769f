import type { AgentEvent } from '../agents/index.ts';
import type { Sealed } from '../../crypto/keyring.ts';
import type { Decider, Json } from '../../eventsourcing/event-store/event-definition.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import type { EnvironmentEvent } from './environment.events.ts';

/** The most variables of one agent. */
export const VARIABLES_MAX = 200;
export const KEY_MAX = 128;
/**
 * The most bytes of the names and values of one agent's variables together, without those that secrets of the account have. A program
 * can't be started with many more, and one response contains all of them.
 */
export const VARIABLES_BYTES_MAX = 1_048_576;

export interface Variable {
  isSecret: boolean;
  value: string | null;
  sealed: Sealed | null;
  mask: string | null;
  /** The account's secret from which the variable takes its value; null if it has a value of its own. */
  secret: string | null;
  setAt: string;
}

export interface KeyedVariable extends Variable {
  key: string;
}

export interface Environment {
  /** The account of the agent; null if the agent does not exist or is deleted. */
  accountId: string | null;
  /** The variables, in the order in which they were first set. */
  variables: ReadonlyMap<string, Variable>;
}

/** A value in plain and encrypted form. Which one is stored depends on whether the variable is secret. */
export interface Value {
  plain: string;
  /** The encrypted value; null if it is not needed. */
  sealed: Sealed | null;
  mask: string;
}

export type EnvironmentCommand =
  /** Creates the variable or changes its value. */
  | { type: 'SetVariable'; accountId: string; key: string; isSecret: boolean; value: Value }
  /** Changes the value of an existing variable, which stays secret or readable as it was. */
  | { type: 'ReplaceVariable'; accountId: string; key: string; value: Value }
  /** Lets the variable take its value from a secret of the account; `mustExist` refuses to make a new variable. */
  | { type: 'LinkVariable'; accountId: string; key: string; secret: string; mustExist: boolean }
  | { type: 'RemoveVariable'; accountId: string; key: string };

/** Returns what is wrong with the name of a variable, or null. */
export function keyProblem(key: string): string | null {
  if (key.length > KEY_MAX || !/^[A-Za-z_][A-Za-z0-9_]*$/.test(key))
    return `must begin with a letter or _, go on with letters, digits or _, and have at most ${KEY_MAX} characters`;
  return key === 'PORT' || key.startsWith('MOORING_') ? `${key} is set by the service itself` : null;
}

/** The rules of an agent's variables. Their state is computed from the agent's stream, separately from the state of its lifecycle. */
export const environmentDecider: Decider<Environment, EnvironmentCommand, EnvironmentEvent> = {
  initialState: () => ({ accountId: null, variables: new Map() }),
  decide,
  evolve,
  snapshot: {
    name: 'environment',
    version: 2,
    subject: (_, id) => id,
    toJson: ({ accountId, variables }) => ({ accountId, variables: [...variables] as unknown as Json }),
    fromJson: (json) => {
      const { accountId, variables } = json as unknown as { accountId: string | null; variables: [string, Variable][] };
      return { accountId, variables: new Map(variables) };
    },
  },
};

/** Returns the variables, sorted by name. */
export function keyedVariables({ variables }: Environment): KeyedVariable[] {
  return [...variables].map(([key, variable]) => ({ key, ...variable })).sort((a, b) => (a.key < b.key ? -1 : 1));
}

/** Returns the environment if it belongs to the account's agent. Throws `agent_not_found`. */
export function ownedEnvironment(environment: Environment, accountId: string): Environment {
  if (environment.accountId !== accountId) throw new ProblemError('agent_not_found', 'There is no such agent.');
  return environment;
}

function decide(command: EnvironmentCommand, environment: Environment, now: Date): EnvironmentEvent[] {
  const { variables } = ownedEnvironment(environment, command.accountId);
  const standing = variables.get(command.key);
  switch (command.type) {
    case 'SetVariable':
      refuseTooMany(variables, command.key);
      if (standing?.isSecret === true && !command.isSecret)
        throw invalidVariable('is_secret', `${command.key} is secret and can't be made readable; delete it first.`);
      refuseTooLarge(variables, command);
      return set(command.key, command.isSecret, command.value, standing, now);
    case 'ReplaceVariable':
      if (standing === undefined) throw variableNotFound(command.key);
      refuseTooLarge(variables, command);
      return set(command.key, standing.isSecret, command.value, standing, now);
    case 'LinkVariable':
      if (command.mustExist && standing === undefined) throw variableNotFound(command.key);
      refuseTooMany(variables, command.key);
      return link(command, standing, now);
    case 'RemoveVariable':
      if (standing === undefined) throw variableNotFound(command.key);
      return [{ type: 'VariableRemoved', data: { key: command.key } }];
  }
}

function set(key: string, isSecret: boolean, { plain, sealed, mask }: Value, present: Variable | undefined, now: Date): EnvironmentEvent[] {
  if (!isSecret && present !== undefined && !present.isSecret && present.value === plain) return [];
  const set_at = now.toISOString();
  if (!isSecret) return [{ type: 'VariableSet', data: { key, is_secret: false, value: plain, sealed: null, mask: null, set_at } }];
  if (sealed === null) throw new Error(`the secret ${key} was not sealed`);
  return [{ type: 'VariableSet', data: { key, is_secret: true, value: null, sealed, mask, set_at } }];
}

function link(
  { accountId: account_id, key, secret }: EnvironmentCommand & { type: 'LinkVariable' },
  present: Variable | undefined,
  now: Date,
): EnvironmentEvent[] {
  if (present?.secret === secret) return [];
  return [{ type: 'VariableLinked', data: { account_id, key, secret, set_at: now.toISOString() } }];
}

function refuseTooMany(variables: Environment['variables'], key: string): void {
  if (!variables.has(key) && variables.size >= VARIABLES_MAX)
    throw invalidVariable('key', `An agent has at most ${VARIABLES_MAX} variables.`);
}

function refuseTooLarge(variables: Environment['variables'], { key, value }: { key: string; value: Value }): void {
  const standing = variables.get(key);
  const bytes = Buffer.byteLength(value.plain);
  if (standing !== undefined && bytes <= bytesOf(standing)) return;
  const others = [...variables].reduce((sum, [name, each]) => (name === key ? sum : sum + name.length + bytesOf(each)), 0);
  if (others + key.length + bytes > VARIABLES_BYTES_MAX)
    throw invalidVariable('value', `The variables of an agent have at most ${VARIABLES_BYTES_MAX} bytes together.`);
}

/** Returns the size of the variable's own value in bytes; for an encrypted value, it is accurate to a few bytes. */
function bytesOf({ value, sealed }: Variable): number {
  return value !== null ? Buffer.byteLength(value) : Math.floor(((sealed?.ct.length ?? 0) * 3) / 4);
}

function invalidVariable(field: string, detail: string): ProblemError {
  return new ProblemError('invalid_request', detail, { errors: [{ field, message: detail }] });
}

function variableNotFound(key: string): ProblemError {
  return new ProblemError('env_var_not_found', `The agent has no variable ${key}.`);
}

function evolve(environment: Environment, event: EnvironmentEvent | AgentEvent): Environment {
  switch (event.type) {
    case 'AgentProvisioned':
      return { ...environment, accountId: event.data.account_id };
    case 'AgentDeletionRequested':
      return { accountId: null, variables: new Map() };
    case 'VariableSet': {
      const { key, is_secret: isSecret, value, sealed, mask, set_at: setAt } = event.data;
      return { ...environment, variables: new Map(environment.variables).set(key, { isSecret, value, sealed, mask, secret: null, setAt }) };
    }
    case 'VariableLinked': {
      const { key, secret, set_at: setAt } = event.data;
      const linked = { isSecret: true, value: null, sealed: null, mask: null, secret, setAt };
      return { ...environment, variables: new Map(environment.variables).set(key, linked) };
    }
    case 'VariableRemoved': {
      const variables = new Map(environment.variables);
      variables.delete(event.data.key);
      return { ...environment, variables };
    }
    default:
      // The stream also contains the agent's other events.
      event satisfies AgentEvent;
      return environment;
  }
}
