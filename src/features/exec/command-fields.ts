import { applyDecorators } from '@nestjs/common';
import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';

import { checked, Given } from '../agents/index.ts';
import { keyProblem } from '../environment/index.ts';
import { valueProblem } from '../secrets/index.ts';

const ARGUMENTS_MAX = 1_000;
const COMMAND_BYTES_MAX = 100_000;
const VARIABLES_MAX = 50;
/** The kernel's limit for the path of a folder, in bytes. */
const PATH_BYTES_MAX = 4_095;

/** Requires the program and its arguments, or a string for the shell. */
export const Command = (): PropertyDecorator => applyDecorators(CommandShape(), checked('command', commandMessage));

/** Describes a command for the OpenAPI document, because the compiler plugin does not see both forms. */
export const CommandShape = (): PropertyDecorator =>
  ApiProperty({ oneOf: [{ type: 'string' }, { type: 'array', items: { type: 'string' }, minItems: 1, maxItems: ARGUMENTS_MAX }] });

/** Allows the folder in which a command starts. */
export const Folder = (): PropertyDecorator => applyDecorators(Given(), checked('cwd', folderMessage));

/** Allows the variables that a command gets in addition to its agent's. */
export const Variables = (): PropertyDecorator =>
  applyDecorators(
    ApiPropertyOptional({ type: 'object', additionalProperties: { type: 'string' }, maxProperties: VARIABLES_MAX }),
    Given(),
    checked('env', variablesMessage),
  );

/** Returns the program and its arguments for the caller's form of a command. */
export function argvOf(command: string | string[]): string[] {
  return typeof command === 'string' ? ['/bin/sh', '-c', command] : command;
}

/** Returns what is wrong with a command, or null. */
export function commandMessage(command: unknown): string | null {
  const words = typeof command === 'string' ? [command] : command;
  if (!Array.isArray(words) || words.length === 0 || words.length > ARGUMENTS_MAX || !words.every((word) => typeof word === 'string'))
    return `must be a string, or an array of 1 to ${ARGUMENTS_MAX} strings`;
  if (words[0] === '') return 'must name a program';
  if (words.some((word) => word.includes('\0'))) return 'must not contain a NUL';
  const bytes = words.reduce((sum, word) => sum + Buffer.byteLength(word), 0);
  return bytes > COMMAND_BYTES_MAX ? `must be at most ${COMMAND_BYTES_MAX} bytes of UTF-8 together` : null;
}

/** Returns what is wrong with the folder of a command, or null. */
export function folderMessage(path: unknown): string | null {
  const fits = typeof path === 'string' && path !== '' && !path.includes('\0') && Buffer.byteLength(path) <= PATH_BYTES_MAX;
  return fits ? null : `must be a path of 1 to ${PATH_BYTES_MAX} bytes without a NUL`;
}

/** Returns what is wrong with the variables of a command, or null. The message contains no value. */
export function variablesMessage(variables: unknown): string | null {
  if (typeof variables !== 'object' || variables === null || Array.isArray(variables)) return 'must be an object of texts';
  const entries = Object.entries(variables);
  if (entries.length > VARIABLES_MAX) return `must have at most ${VARIABLES_MAX} variables`;
  for (const [key, value] of entries) {
    const problem = keyProblem(key) ?? (typeof value === 'string' ? valueProblem(value) : 'must be a string');
    if (problem !== null) return `has a variable that is not valid: ${problem}`;
  }
  return null;
}
