/*
 * Starts long-running commands in agents, and passes input and signals on to them.
 *
 * It owns the order of records and calls to the container for one request. It does not own how commands end (`CommandsSaga`), their output
 * (`CommandOutputs`), or the rules (commands.decider.ts).
 *
 * Invariants:
 * C1. A command is recorded before it is started, and started at most once under its id: a repeated request finds the record, and a start
 *     is not attempted later than START_WINDOW_MS after the record. After that time the saga can tell that the command never started.
 * C2. An input or a signal is recorded before it is sent, under the id of the request, so that a repeated request does not send it again.
 * C3. A command that was removed while it was being started is killed.
 * C4. The calls of this process to containers are bounded, with a share for each account.
 */

import { Injectable } from '@nestjs/common';

import { Agents } from '../agents/services.ts';
import { Activity, LiveContainers } from '../../sandboxes/services.ts';
import { sharesOf } from '../../kernel/limits/account-counter.ts';
import { FairLimiter } from '../../kernel/limits/fair-limiter.ts';
import { timeoutSignal } from '../../kernel/async/timeout-signal.ts';
import type { CommandContext } from '../../kernel/context/command-context.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { ContainerRuntime } from '../../runtime/runtime.ts';
import type { ContainerHandle } from '../../runtime/container.ts';
import { ContainerGone, RuntimeRefused, RuntimeUnavailable } from '../../runtime/runtime.errors.ts';
import { CommandRecords, type CommandTexts } from './command-records.service.ts';
import { commandNotFound, findCommand, hasEnded, type EndedCommand, type RunningCommand } from './commands.decider.ts';

/** The timeouts of a start, of a write to an input, and of any other call, in ms. */
const START_TIMEOUT_MS = 10_000;
const INPUT_TIMEOUT_MS = 30_000;
const CALL_TIMEOUT_MS = 10_000;
/** C1: a command starts within this time after its record, in ms, or never. */
const START_WINDOW_MS = 20_000;
/** The number of calls that one process makes at once; an account may have a quarter of them. */
const CALLS = sharesOf(128);

/** A caller's request about one command. */
export interface CommandCall {
  context: CommandContext;
  accountId: string;
  agentId: string;
  commandId: string;
  /** The signal that aborts when the caller has gone. */
  signal: AbortSignal;
  /** Called if the agent had to be woken. */
  onWoken: () => void;
}

export interface NewCommand extends CommandTexts {
  argv: string[];
  environment: Record<string, string>;
  keepAwakeSeconds: number | null;
}

/** Starts commands that keep running in agents, and passes input and signals on to them. It wakes the agent first, and records the caller. */
@Injectable()
export class CommandRuns {
  private readonly slots = { limiter: new FairLimiter(CALLS), full: 'Too many calls to commands of this account run at once.' };

  constructor(
    private readonly containers: LiveContainers,
    private readonly runtime: ContainerRuntime,
    private readonly records: CommandRecords,
    private readonly agents: Agents,
    private readonly activity: Activity,
  ) {}

  /**
   * Starts the command and returns its present state. C1: if a command with this id was started before, it returns that one. Throws
   * `agent_not_found`, `agent_unavailable`, `runtime_unavailable` and `rate_limited`.
   */
  start(call: CommandCall, command: NewCommand): Promise<RunningCommand | EndedCommand> {
    return this.use(call, async (handle, generation) => {
      const recorded = await this.recordStart(call, command, generation);
      // C1: the saga finds out how an earlier attempt ended.
      if (hasEnded(recorded) || recorded.generation !== generation || leftMs(recorded) <= 0) return recorded;
      if (recorded.keepAwakeUntil !== null) await this.activity.keepAwake(call.agentId, new Date(recorded.keepAwakeUntil));
      await this.startIn(handle, call, command, leftMs(recorded));
      return recorded;
    });
  }

  /** Writes to the command's input, and closes it if `closes`. Throws the errors of `start`, and also `not_found`, `invalid_state` and `reply_timeout`. */
  async write(call: CommandCall, actId: string, bytes: Buffer, closes: boolean): Promise<void> {
    await this.requireRunning(call);
    await this.use(call, async (handle) => {
      const { agentId, commandId, context } = call;
      await this.records.execute(agentId, { type: 'SendInput', commandId, actId, bytes: bytes.length, closes }, context);
      const signal = AbortSignal.any([call.signal, timeoutSignal(INPUT_TIMEOUT_MS)]);
      const isTaken = await this.runtime.commands.write(handle, commandId, bytes, closes, signal).catch(throwUnread);
      if (!isTaken) throw new ProblemError('invalid_state', 'The command has ended, or its input was closed before.');
    });
  }

  /** Sends the signal to the command's process group. Throws the errors of `start`, and also `not_found` and `invalid_state`. */
  async signal(call: CommandCall, actId: string, signal: NodeJS.Signals): Promise<void> {
    await this.requireRunning(call);
    await this.use(call, async (handle) => {
      const { agentId, commandId, context } = call;
      await this.records.execute(agentId, { type: 'SendSignal', commandId, actId, signal }, context);
      const isSent = await this.runtime.commands.signal(handle, commandId, signal, timeoutSignal(CALL_TIMEOUT_MS));
      if (!isSent) throw new ProblemError('invalid_state', 'The command has ended.');
    });
  }

  /** Kills the command and its descendants if it runs, waking the agent for that, and deletes it. Throws what `signal` throws. */
  async remove(call: CommandCall): Promise<void> {
    const { agentId, accountId, commandId, context } = call;
    const command = await this.records.find(agentId, accountId, commandId);
    const { status, generation } = await this.agents.load(agentId, accountId);
    // The agent is not woken only to delete what its container keeps of an ended command.
    if (!hasEnded(command) || (status === 'active' && generation === command.generation))
      await this.use(call, (handle) => this.runtime.commands.remove(handle, commandId, timeoutSignal(CALL_TIMEOUT_MS)));
    await this.records.execute(agentId, { type: 'RemoveCommand', commandId }, context);
  }

  private async use<T>(call: CommandCall, work: (handle: ContainerHandle, generation: number) => Promise<T>): Promise<T> {
    const inContainer = async (handle: ContainerHandle, woken: boolean, generation: number) => {
      if (woken) call.onWoken();
      return work(handle, generation);
    };
    return this.containers.use({ ...call, sandboxId: call.agentId, trigger: 'commands' }, this.slots, inContainer).catch(throwCallRefusal);
  }

  /** C1: records the start, unless it is recorded already, and returns the recorded command. */
  private async recordStart(
    { agentId, commandId, context }: CommandCall,
    { command, cwd, name, keepAwakeSeconds }: NewCommand,
    generation: number,
  ): Promise<RunningCommand | EndedCommand> {
    const now = Date.now();
    const after = (ms: number) => new Date(now + ms).toISOString();
    const state = await this.records.execute(
      agentId,
      {
        type: 'StartCommand',
        agentId,
        commandId,
        generation,
        command: await this.records.seal(agentId, commandId, { command, cwd, name }),
        startedAt: after(0),
        startsBy: after(START_WINDOW_MS),
        keepAwakeUntil: keepAwakeSeconds === null ? null : after(keepAwakeSeconds * 1_000),
      },
      context,
    );
    const recorded = findCommand(state, commandId);
    if (recorded === null) throw commandNotFound();
    return recorded;
  }

  private async startIn(handle: ContainerHandle, call: CommandCall, command: NewCommand, timeoutMs: number): Promise<void> {
    const { agentId, commandId, context } = call;
    const { argv, cwd, environment } = command;
    const signal = timeoutSignal(Math.min(START_TIMEOUT_MS, timeoutMs));
    try {
      await this.runtime.commands.start(handle, { commandId, argv, cwd, environment }, signal);
    } catch (error) {
      if (error instanceof RuntimeRefused || error instanceof ContainerGone) {
        const end = { end: 'not_started' as const, exitCode: null, outputBytes: 0, droppedBytes: 0 };
        await this.records.execute(agentId, { type: 'EndCommand', commandId, ...end }, context);
      }
      throw error;
    }
    // C3
    if (findCommand(await this.records.load(agentId), commandId) !== null) return;
    await this.runtime.commands.remove(handle, commandId, timeoutSignal(CALL_TIMEOUT_MS));
    throw commandNotFound();
  }

  private async requireRunning({ agentId, accountId, commandId }: CommandCall): Promise<void> {
    if (hasEnded(await this.records.find(agentId, accountId, commandId))) throw new ProblemError('invalid_state', 'The command has ended.');
  }
}

/** C1: returns how much time is left to start the command, in ms. */
function leftMs({ startsBy }: RunningCommand): number {
  return Date.parse(startsBy) - (START_WINDOW_MS - START_TIMEOUT_MS) - Date.now();
}

function throwUnread(error: unknown): never {
  if (isTimeout(error))
    throw new ProblemError(
      'reply_timeout',
      `The command did not read its input within ${INPUT_TIMEOUT_MS / 1_000} s; it may have got a part.`,
    );
  throw error;
}

function isTimeout(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'TimeoutError';
}

/** Throws the caller's refusal for an error of the runtime, and any other error unchanged. */
export function throwCallRefusal(error: unknown): never {
  if (error instanceof RuntimeUnavailable || isTimeout(error))
    throw new ProblemError('runtime_unavailable', 'The container engine did not answer; the request may have taken effect.');
  if (error instanceof RuntimeRefused) throw new ProblemError('agent_unavailable', error.message);
  if (error instanceof ContainerGone) throw new ProblemError('agent_unavailable', 'The agent’s container ended meanwhile.');
  throw error;
}
