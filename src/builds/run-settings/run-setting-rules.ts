import { protocolNames } from '../../agent-protocol/protocol-names.ts';
import type { RunSettingName, RunSettings } from './run-settings.ts';

/** The rule of one setting. */
export interface RunSettingRule {
  /** Returns what is wrong with a value other than null; null if nothing is. The text continues after the setting's name. */
  problem: (value: unknown) => string | null;
  /** The JSON Schema of the values. It describes them, and `problem` decides. */
  schema: { description: string } & Record<string, unknown>;
}

/** The bounds of the operator on what an agent may ask for. */
export interface RunBounds {
  agentMemoryMaxMb: number;
  agentCpusMax: number;
}

const WORDS_MAX = 64;
const WORD_CHARACTERS_MAX = 4_096;
const COMMAND_CHARACTERS_MAX = 16_384;
const FOLDER_CHARACTERS_MAX = 500;
const NAMES_MAX = 200;
const MEMORY_MB = { min: 16, max: 1_048_576 };
const CPUS = { min: 0.05, max: 1_024 };
const PATH_TEXT = 'a slash, and then at most 255 visible ASCII characters';
const urlPath = /^\/[\x21-\x7e]{0,255}$/;
const variableName = /^[A-Za-z_]\w{0,127}$/;
const pathSchema = { type: 'string', pattern: '^/[!-~]{0,255}$' };

/** The rules of the settings, in the order in which they are shown. */
export const runSettingRules: Readonly<Record<RunSettingName, RunSettingRule>> = {
  protocol: {
    problem: (value) => (isIn(protocolNames, value) ? null : `must be one of ${protocolNames.join(', ')}`),
    schema: { type: 'string', enum: [...protocolNames], description: 'The protocol in which the agent takes messages; default mooring.' },
  },
  port: integer(1, 65_535, 'The port on which the agent listens, which is the value of its variable PORT; default 8080.'),
  health_path: {
    problem: (value) => (value === 'tcp' || isPath(value) ? null : `must be "tcp" or a path: ${PATH_TEXT}`),
    schema: {
      anyOf: [pathSchema, { const: 'tcp' }],
      description:
        'The path that answers 2xx once the agent is ready, or tcp if a port that accepts connections suffices; default /healthz.',
    },
  },
  start: {
    problem: startProblem,
    schema: {
      type: 'array',
      items: { type: 'string', minLength: 1, maxLength: WORD_CHARACTERS_MAX },
      minItems: 1,
      maxItems: WORDS_MAX,
      description: 'The start command in exec form, the program and its arguments. It replaces that of the image or the project.',
    },
  },
  root: {
    problem: rootProblem,
    schema: {
      type: 'string',
      minLength: 1,
      maxLength: FOLDER_CHARACTERS_MAX,
      pattern: '^(?!/)(?!(.*/)?\\.\\.(/|$))[^\\\\]+$',
      description: 'The folder of the repository that contains the agent, such as apps/api; default the repository itself.',
    },
  },
  start_timeout: integer(5, 600, 'The time in seconds within which a container must be ready; default 60, or what the operator sets.'),
  memory_mb: integer(MEMORY_MB.min, MEMORY_MB.max, 'The MiB of memory of the container, within the bound of the operator.'),
  cpus: {
    problem: (value) =>
      typeof value === 'number' && value >= CPUS.min && value <= CPUS.max ? null : `must be a number from ${CPUS.min} to ${CPUS.max}`,
    schema: {
      type: 'number',
      minimum: CPUS.min,
      maximum: CPUS.max,
      description: 'The processors of the container, within the bound of the operator; 0.5 is half of one.',
    },
  },
  webhook_handshake: {
    problem: (value) => (isPath(value) ? null : `must be a path: ${PATH_TEXT}`),
    schema: { ...pathSchema, description: 'The path on which the agent answers the handshakes of webhooks’ senders.' },
  },
  build_variables: {
    problem: namesProblem,
    schema: {
      type: 'array',
      items: { type: 'string', pattern: '^[A-Za-z_][A-Za-z0-9_]{0,127}$' },
      maxItems: NAMES_MAX,
      uniqueItems: true,
      description: 'The names of the variables that the build gets, secret ones included; if absent, all that are not secret.',
    },
  },
};

export const runSettingNames = Object.keys(runSettingRules) as RunSettingName[];

/** Returns what is wrong with a value of the setting, or null; null is a value of each setting. */
export function runSettingProblem(name: RunSettingName, value: unknown): string | null {
  return value === null ? null : runSettingRules[name].problem(value);
}

/** Returns the first setting that asks for more than the operator allows, with what is wrong; null if there is none. */
export function beyondBounds(said: RunSettings, bounds: RunBounds): { name: 'memory_mb' | 'cpus'; problem: string } | null {
  const { agentMemoryMaxMb, agentCpusMax } = bounds;
  if ((said.memory_mb ?? 0) > agentMemoryMaxMb)
    return { name: 'memory_mb', problem: `must be at most ${agentMemoryMaxMb}, the operator's bound (MOORING_AGENT_MEMORY_MAX_MB)` };
  if ((said.cpus ?? 0) > agentCpusMax)
    return { name: 'cpus', problem: `must be at most ${agentCpusMax}, the operator's bound (MOORING_AGENT_CPUS_MAX)` };
  return null;
}

function integer(min: number, max: number, description: string): RunSettingRule {
  const isGood = (value: unknown) => Number.isInteger(value) && (value as number) >= min && (value as number) <= max;
  return {
    problem: (value) => (isGood(value) ? null : `must be a whole number from ${min} to ${max}`),
    schema: { type: 'integer', minimum: min, maximum: max, description },
  };
}

function startProblem(value: unknown): string | null {
  const isWord = (word: unknown) =>
    typeof word === 'string' && word.length >= 1 && word.length <= WORD_CHARACTERS_MAX && !word.includes('\0') && word.isWellFormed();
  const isGood =
    Array.isArray(value) &&
    value.length >= 1 &&
    value.length <= WORDS_MAX &&
    value.every(isWord) &&
    (value as string[]).reduce((sum, { length }) => sum + length, 0) <= COMMAND_CHARACTERS_MAX;
  if (isGood) return null;
  return (
    `must be a list of the program and its arguments: 1 to ${WORDS_MAX} texts of 1 to ${WORD_CHARACTERS_MAX} characters, ` +
    `${COMMAND_CHARACTERS_MAX} at most in all`
  );
}

function rootProblem(value: unknown): string | null {
  const isGood =
    typeof value === 'string' &&
    value.length >= 1 &&
    value.length <= FOLDER_CHARACTERS_MAX &&
    !/^\/|[\\\p{Cc}\p{Cs}]/u.test(value) &&
    !value.split('/').includes('..');
  return isGood ? null : 'must be a folder of the repository, such as apps/api, without a slash at its beginning and without ..';
}

function namesProblem(value: unknown): string | null {
  const isName = (name: unknown) => typeof name === 'string' && variableName.test(name);
  const isGood =
    Array.isArray(value) && value.length <= NAMES_MAX && value.every(isName) && new Set(value as string[]).size === value.length;
  return isGood ? null : `must be a list of at most ${NAMES_MAX} names of variables, each once`;
}

function isPath(value: unknown): boolean {
  return typeof value === 'string' && urlPath.test(value);
}

function isIn(options: readonly unknown[], value: unknown): boolean {
  return options.includes(value);
}
