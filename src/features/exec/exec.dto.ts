import { IsInt, IsOptional, Max, Min } from 'class-validator';

import { checked, Given } from '../agents/index.ts';
import { Command, Folder, Variables } from './command-fields.ts';

export const DEFAULT_TIMEOUT_SECONDS = 60;
const TIMEOUT_SECONDS_MAX = 120;
const STDIN_BYTES_MAX = 1_048_576;
/** The bound of the request, in bytes: JSON may write each byte of the input with two. */
export const EXEC_BODY_LIMIT = 2 * STDIN_BYTES_MAX + 1_048_576;

export class ExecDto {
  /** The program and its arguments, which run as they are; or a string, which runs through `/bin/sh -c`. */
  @Command()
  command: string | string[];

  /** The seconds after which the command is killed, with its children. */
  @IsOptional()
  @IsInt()
  @Min(1)
  @Max(TIMEOUT_SECONDS_MAX)
  timeout?: number;

  /** The folder in which the command starts, from the agent's volume on. The default is the volume, or the folder of the session. */
  @Folder()
  cwd?: string;

  /** Variables for the command beside the agent's own, at most 50. They are not kept. */
  @Variables()
  env?: Record<string, string>;

  /** The input of the command, at most 1 MiB of UTF-8. It is not kept. Without it the input is empty. */
  @Given()
  @checked('stdin', stdinMessage)
  stdin?: string;

  /**
   * The name of a session: its shell keeps folder, variables and functions from one command to the next, runs one at a time, and ends after 15
   * minutes without use or with the container. An agent has at most 8.
   */
  @Given()
  @checked('session', sessionMessage)
  session?: string;
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

/** Returns what is wrong with the input of a command, or null. */
function stdinMessage(stdin: unknown): string | null {
  const fits = typeof stdin === 'string' && Buffer.byteLength(stdin) <= STDIN_BYTES_MAX;
  return fits ? null : `must be a string of at most ${STDIN_BYTES_MAX} bytes of UTF-8`;
}

/** Returns what is wrong with the name of a session, or null. */
function sessionMessage(name: unknown): string | null {
  const fits = typeof name === 'string' && /^[A-Za-z0-9_.-]{1,64}$/.test(name);
  return fits ? null : 'must have 1 to 64 characters: letters, digits, ".", "_" and "-"';
}
