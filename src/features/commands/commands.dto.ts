import { Allow, IsIn, IsInt, IsOptional, Max, Min } from 'class-validator';

import { AgentIdMember, Given, Text } from '../agents/index.ts';
import { Command, CommandShape, Folder, Variables } from '../exec/index.ts';
import { hasLength, IntegerQuery } from '../../http/requests/validation.ts';
import type { CommandTexts } from './command-records.service.ts';
import { OUTPUT_BYTES_MAX } from './command-outputs.service.ts';
import { type EndedCommand, hasEnded, type RunningCommand } from './commands.decider.ts';
import { type CommandRow, type CommandStatus, statusOf } from './commands.table.ts';

/** The signals that mean something to a command. */
const SIGNALS = [
  'SIGHUP',
  'SIGINT',
  'SIGQUIT',
  'SIGABRT',
  'SIGKILL',
  'SIGUSR1',
  'SIGUSR2',
  'SIGPIPE',
  'SIGALRM',
  'SIGTERM',
  'SIGCHLD',
  'SIGCONT',
  'SIGSTOP',
  'SIGTSTP',
  'SIGTTIN',
  'SIGTTOU',
  'SIGWINCH',
] as const;
const KEEP_AWAKE_SECONDS_MAX = 86_400;
const NAME_MAX = 100;
const OFFSET_MAX = 999_999_999_999_999;

export class CommandPathDto {
  @AgentIdMember()
  agentId: string;

  @Allow()
  commandId: string;
}

export class StartCommandDto {
  /** The program and its arguments, which run as they are; or a string, which runs through `/bin/sh -c`. */
  @Command()
  command: string | string[];

  /** The folder in which the command starts, from the agent's volume on. The default is the volume. */
  @Folder()
  cwd?: string;

  /** Variables for the command beside the agent's own, at most 50. They are not kept. */
  @Variables()
  env?: Record<string, string>;

  /** A name by which people know it, 1 to 100 characters; it need not be unique. */
  @Given()
  @Text((name) =>
    hasLength(name, 1, NAME_MAX) && !/\p{Cc}/u.test(name)
      ? null
      : `must have 1 to ${NAME_MAX} characters, none of them a control character`,
  )
  name?: string;

  /** The seconds for which the command keeps its agent awake while it runs. Without this, the command freezes with its agent. */
  @IsOptional()
  @IsInt()
  @Min(1)
  @Max(KEEP_AWAKE_SECONDS_MAX)
  keep_awake?: number;
}

export class StartedCommandDto {
  command_id: string;
  status: CommandStatus;
  started_at: string;
}

export class OutputQueryDto {
  /** The offset of the first byte that is wanted; the default is 0. `Last-Event-ID` goes before it. */
  @IsOptional()
  @IntegerQuery(0, OFFSET_MAX)
  offset?: number;

  /** The most bytes of a response that is no stream; the default is 1 MiB. */
  @IsOptional()
  @IntegerQuery(1, OUTPUT_BYTES_MAX)
  limit?: number;
}

export class InputQueryDto {
  /** True ends the input of the command after these bytes. */
  @IsOptional()
  @IsIn(['true', 'false'])
  close?: 'true' | 'false';
}

export class SendSignalDto {
  /** The name of the signal, such as SIGINT. */
  @IsIn(SIGNALS)
  signal: (typeof SIGNALS)[number];
}

export class CommandDto {
  command_id: string;
  name: string | null;
  @CommandShape()
  command: string | string[];
  cwd: string | null;
  status: CommandStatus;
  /** The exit code; 128 and the signal's number if a signal ended it; null while it runs, and if it ended with its container. */
  exitCode: number | null;
  started_at: string;
  ended_at: string | null;
  /** The time until which it keeps its agent awake while it runs; null if it does not. */
  keep_awake_until: string | null;
  /** The bytes that it has printed; null if that is not known, as while the agent sleeps. */
  output_bytes: number | null;
  /** The bytes at the beginning of its output that are not kept any more; null if that is not known. */
  dropped_bytes: number | null;
}

export function toStartedCommandDto(command: RunningCommand | EndedCommand): StartedCommandDto {
  const status = hasEnded(command) ? statusOf(command.end) : 'running';
  return { command_id: command.id, status, started_at: command.startedAt };
}

export interface OutputBytes {
  outputBytes: number | null;
  droppedBytes: number | null;
}

/** Returns the command as callers see it. `texts` is null if its agent is deleted meanwhile. */
export function toCommandDto(row: CommandRow, texts: CommandTexts | null, { outputBytes, droppedBytes }: OutputBytes): CommandDto {
  return {
    command_id: row.command_id,
    name: texts?.name ?? null,
    command: texts?.command ?? '',
    cwd: texts?.cwd ?? null,
    status: row.status,
    exitCode: row.exit_code,
    started_at: row.started_at.toISOString(),
    ended_at: row.ended_at?.toISOString() ?? null,
    keep_awake_until: row.keep_awake_until?.toISOString() ?? null,
    output_bytes: outputBytes,
    dropped_bytes: droppedBytes,
  };
}
