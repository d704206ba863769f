import { ApiProperty } from '@nestjs/swagger';
import { IsInt, IsOptional, Max, Min } from 'class-validator';

import { checked } from '../agents/index.ts';

const ARGUMENTS_MAX = 1_000;
const COMMAND_BYTES_MAX = 100_000;
export const DEFAULT_TIMEOUT_SECONDS = 60;
const TIMEOUT_SECONDS_MAX = 120;

export class ExecDto {
  /** The program and its arguments, which run as they are; or a string, which runs through `/bin/sh -c`. */
  @ApiProperty({ oneOf: [{ type: 'string' }, { type: 'array', items: { type: 'string' }, minItems: 1, maxItems: ARGUMENTS_MAX }] })
  @checked('command', commandMessage)
  command: string | string[];

  /** The seconds after which the command is killed, with its children. */
  @IsOptional()
  @IsInt()
  @Min(1)
  @Max(TIMEOUT_SECONDS_MAX)
  timeout?: number;
}

/** The outcome of a command. `stdout` and `stderr` have U+FFFD in place of bytes that are no UTF-8. */
export interface ExecResultDto {
  /** The exit code; 124 if the command was killed at its deadline, 126 if it can't be run, 127 if it was not found. */
  exitCode: number;
  stdout: string;
  stderr: string;
  timedOut: boolean;
  /** True if the command printed more than 256 KB to both together; the rest was discarded. */
  truncated: boolean;
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
