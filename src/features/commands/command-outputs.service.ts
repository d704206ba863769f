/*
 * Reads what commands in agents have printed: once, or as a stream of events that follows the output.
 *
 * It owns the bounds on reading. It does not own the output itself, which the supervisor in the container keeps, or the record of a
 * command's end (`CommandsSaga`).
 *
 * Invariants:
 * O1. An agent is woken only if its container may have output that the caller has not read.
 * O2. The offset of a stream's event is where the next read continues, so nothing is lost or repeated over reconnections. A character that
 *     was printed in parts is sent as a whole.
 * O3. Following an output does not keep the agent awake.
 * O4. A stream ends with `end` and the outcome, or with `error`; it waits END_TIMEOUT_MS for the record of the end.
 * O5. Reads are bounded for this process and for each account, in number and in bytes per second.
 */

import { Injectable } from '@nestjs/common';

import { Agents } from '../agents/services.ts';
import { sharesOf } from '../../kernel/limits/account-counter.ts';
import { FairLimiter } from '../../kernel/limits/fair-limiter.ts';
import { ReadShare } from '../../kernel/limits/read-share.ts';
import { timeoutSignal } from '../../kernel/async/timeout-signal.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { toProblemError } from '../../http/responses/problems.ts';
import type { ServerSentEvent } from '../../http/server/response-streams.ts';
import type { CommandOutput as OutputPiece } from '../../runtime/agent-commands.ts';
import { ContainerRuntime } from '../../runtime/runtime.ts';
import { TextPieces } from '../../kernel/text/text-pieces.ts';
import { LiveContainers } from '../../sandboxes/services.ts';
import { CommandRecords } from './command-records.service.ts';
import { throwCallRefusal, type CommandCall } from './command-runs.service.ts';
import { type EndedCommand, findCommand, hasEnded, type RunningCommand } from './commands.decider.ts';
import { statusOf } from './commands.table.ts';

/** The most bytes of one response that is not a stream: as much as is kept of a command's output. */
export const OUTPUT_BYTES_MAX = 1_048_576;
/** The timeout of such a response, in ms. */
const READ_TIMEOUT_MS = 30_000;
/** O4: the end of a command is recorded within this time after the end of its output, in ms. */
const END_TIMEOUT_MS = 15_000;
/** The number of reads that one process begins at once; an account may have a quarter of them. */
const READS = sharesOf(128);
/** The bytes of output that one process reads in a second, of which an account may have a quarter, and those of one command at a time. */
const READ_BYTES = { perSecond: 8 * 1024 * 1024, atATime: 64 * 1024 };

export interface ReadOutput {
  /** The offset of the first byte, and the one after the last. */
  offset: number;
  nextOffset: number;
  bytes: Buffer;
}

/** Reads what commands in agents have printed. It wakes a sleeping agent if the container has the requested output. */
@Injectable()
export class CommandOutputs {
  private readonly slots = { limiter: new FairLimiter(READS), full: 'Too many outputs of this account are opened at once.' };
  private readonly share = new ReadShare(READ_BYTES);

  constructor(
    private readonly containers: LiveContainers,
    private readonly runtime: ContainerRuntime,
    private readonly records: CommandRecords,
    private readonly agents: Agents,
  ) {}

  /** Returns the output so far from the offset, or from the first later byte that is kept. Throws what `CommandRuns.signal` throws. */
  async read(call: CommandCall, offset: number, limit: number): Promise<ReadOutput> {
    const signal = AbortSignal.any([call.signal, timeoutSignal(READ_TIMEOUT_MS)]);
    const { command, pieces } = await this.open(call, { offset, limit, follow: false }, signal);
    const { accountId } = call;
    const pace = this.share.reader(accountId, signal);
    const read: Buffer[] = [];
    let first = pieces === null && hasEnded(command) ? Math.max(offset, command.outputBytes ?? 0) : offset;
    let size = 0;
    try {
      for await (const piece of pieces ?? []) {
        if (size === 0) first = piece.offset;
        const bytes = piece.bytes.subarray(0, limit - size);
        read.push(bytes);
        size += bytes.length;
        if (size >= limit) break;
        await pace(bytes.length);
      }
    } catch (error) {
      throwCallRefusal(error);
    }
    return { offset: first, nextOffset: first + size, bytes: Buffer.concat(read) };
  }

  /**
   * Returns events with the output from the offset on, then `end` with the outcome, or `error` if the output can't be followed any more. O2: the
   * id of each event is the offset to continue from. Throws what `read` throws, before the first event.
   */
  async follow(call: CommandCall, offset: number, signal: AbortSignal): Promise<AsyncIterable<ServerSentEvent>> {
    const { pieces } = await this.open(call, { offset, limit: null, follow: true }, signal);
    return this.events(call, offset, pieces, signal);
  }

  private async *events(
    call: CommandCall,
    from: number,
    pieces: AsyncIterable<OutputPiece> | null,
    signal: AbortSignal,
  ): AsyncGenerator<ServerSentEvent> {
    const texts = new TextPieces();
    const pace = this.share.reader(call.accountId, signal);
    let next = from;
    let failure: unknown = null;
    try {
      for await (const { offset, bytes } of pieces ?? []) {
        if (offset !== next + texts.pending) {
          yield* remainingText(texts, next);
          next = offset;
        }
        const piece = texts.add(bytes);
        const end = offset + bytes.length - texts.pending;
        if (piece !== null) yield { id: String(end), event: 'output', data: { offset: next, ...piece } };
        next = end;
        await pace(bytes.length);
      }
    } catch (error) {
      failure = error;
    }
    if (signal.aborted) return;
    const end = next + texts.pending;
    yield* remainingText(texts, next);
    yield { id: String(end), ...(await this.lastEvent(call, failure, signal)) };
  }

  /** Returns the last event of a stream. */
  private async lastEvent({ agentId, commandId }: CommandCall, failure: unknown, signal: AbortSignal): Promise<ServerSentEvent> {
    // The output may have ended because the command did.
    if (await this.records.waitForEnd(agentId, commandId, END_TIMEOUT_MS, signal)) {
      const command = findCommand(await this.records.load(agentId), commandId);
      return { event: 'end', data: outcomeOf(command) };
    }
    const refusal =
      failure === null ? new ProblemError('runtime_unavailable', 'The output ended, but the command still runs.') : refusalOf(failure);
    return { event: 'error', data: { code: refusal.code, detail: refusal.message } };
  }

  /** Opens the output. `pieces` is null if everything that is kept was read, or the container has exited. */
  private async open(
    call: CommandCall,
    request: { offset: number; limit: number | null; follow: boolean },
    signal: AbortSignal,
  ): Promise<{ command: RunningCommand | EndedCommand; pieces: AsyncIterable<OutputPiece> | null }> {
    const { agentId, accountId, commandId } = call;
    const command = await this.records.find(agentId, accountId, commandId);
    if (hasEnded(command) && !(await this.mayHaveMore(call, command, request.offset))) return { command, pieces: null };
    const pieces = await this.containers
      .use({ ...call, sandboxId: call.agentId, trigger: 'commands' }, this.slots, (handle, woken) => {
        if (woken) call.onWoken();
        return this.runtime.commands.output(handle, commandId, request, signal);
      })
      .catch(throwCallRefusal);
    return { command, pieces };
  }

  /** O1: returns whether the container may have output of the ended command from the offset on. */
  private async mayHaveMore({ agentId, accountId }: CommandCall, command: EndedCommand, offset: number): Promise<boolean> {
    if (command.outputBytes === null || offset >= command.outputBytes) return false;
    const { generation, status, sleepDepth } = await this.agents.load(agentId, accountId);
    return generation === command.generation && sleepDepth !== 'stopped' && status !== 'stopped' && status !== 'error';
  }
}

/** O2: yields the first bytes of a character that was never completed, if there are any. */
function* remainingText(texts: TextPieces, offset: number): Generator<ServerSentEvent> {
  const id = String(offset + texts.pending);
  const piece = texts.end();
  if (piece !== null) yield { id, event: 'output', data: { offset, ...piece } };
}

function outcomeOf(command: RunningCommand | EndedCommand | null): object {
  // A command that was removed while it ran was killed.
  if (command === null || !hasEnded(command)) return { status: 'killed', exitCode: null, output_bytes: null, dropped_bytes: null };
  const { end, exitCode, outputBytes, droppedBytes } = command;
  return { status: statusOf(end), exitCode, output_bytes: outputBytes, dropped_bytes: droppedBytes };
}

function refusalOf(error: unknown): ProblemError {
  try {
    return throwCallRefusal(error);
  } catch (refused) {
    return toProblemError(refused);
  }
}
