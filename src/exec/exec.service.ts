import { Injectable, Logger } from '@nestjs/common';

import type { Agent } from '../agents/index.ts';
import { WakeGate } from '../agents/services.ts';
import { FairLimiter } from '../platform/async/fair-limiter.ts';
import type { CommandContext } from '../platform/context/command-context.ts';
import { Refusal } from '../platform/errors/refusal.ts';
import {
  ContainerGone,
  ContainerRuntime,
  RuntimeRefused,
  RuntimeUnavailable,
  type ContainerHandle,
  type ExecResult,
  type OutputStream,
} from '../platform/runtime/runtime.ts';
import { AgentExecs } from './agent-execs.service.ts';
import type { ExecFailure } from './exec.events.ts';

/** The limit of what a command may print to stdout and stderr together, in bytes (service.md, Limits: 256 KB, one merged stream). */
const OUTPUT_BYTES = 256 * 1024;
/** The number of commands that one process runs at once, and for one account. */
const EXECS = { limit: 128, perAccount: 32 };
/** The longest time that a command waits for its turn, ms. */
const TURN_TIMEOUT_MS = 10_000;

/** A command that a caller wants to run in an agent. */
export interface ExecOrder {
  context: CommandContext;
  accountId: string;
  agentId: string;
  /** The id of this run, which is the same for every try under one `Idempotency-Key`. */
  execId: string;
  /** The program and its arguments, or a string for `/bin/sh -c`. */
  command: string | string[];
  timeoutSeconds: number;
  /** The signal that aborts when the caller has gone; the command is then killed. */
  signal: AbortSignal;
}

/** Follows a command that runs. */
export interface ExecListener {
  /** The command is about to run; `woken` is true if the agent had to be woken for it. Nothing is refused from here on. */
  onStart?: (woken: boolean) => void;
  /** Receives the output as it comes; the result then holds none. */
  onOutput?: (stream: OutputStream, bytes: Buffer) => void;
}

/** Runs commands in agents, which it wakes first, and records who ran them. */
@Injectable()
export class Exec {
  private readonly logger = new Logger('Exec');
  private readonly places = new FairLimiter(EXECS);

  constructor(
    private readonly gate: WakeGate,
    private readonly runtime: ContainerRuntime,
    private readonly execs: AgentExecs,
  ) {}

  /**
   * Runs the command and waits for its end. Throws `agent_not_found`, `agent_unavailable`, `runtime_unavailable`, `rate_limited`,
   * `invalid_state` for an `execId` that was started before, and the signal's reason if it aborts.
   */
  async run(order: ExecOrder, listener: ExecListener = {}): Promise<ExecResult> {
    const { accountId, agentId, context, signal } = order;
    if (!(await this.runtime.available())) throw engineAway();
    const need = { agentId, accountId, context, signal, trigger: 'exec' };
    const inTurn = (agent: Agent, woken: boolean) =>
      this.places.run({ account: accountId, agent: agentId }, AbortSignal.any([signal, AbortSignal.timeout(TURN_TIMEOUT_MS)]), () =>
        this.recorded(order, agent, woken, listener),
      );
    const { result } = await this.gate.whileAwake(need, inTurn).catch(refused);
    return result;
  }

  private async recorded(order: ExecOrder, agent: Agent, woken: boolean, { onStart, onOutput }: ExecListener): Promise<ExecResult> {
    const handle = await this.handleOf(order.agentId, agent.generation);
    await this.execs.start(order);
    onStart?.(woken);
    try {
      const result = await this.runtime.exec(handle, {
        argv: typeof order.command === 'string' ? ['/bin/sh', '-c', order.command] : order.command,
        timeoutMs: order.timeoutSeconds * 1_000,
        outputLimitBytes: OUTPUT_BYTES,
        signal: order.signal,
        onOutput,
      });
      await this.execs.end(order, result).catch((error: unknown) => this.notRecorded(error));
      return result;
    } catch (error) {
      const failure: ExecFailure = order.signal.aborted ? 'canceled' : 'interrupted';
      await this.execs.fail(order, failure).catch((reason: unknown) => this.notRecorded(reason));
      throw error;
    }
  }

  private async handleOf(agentId: string, generation: number): Promise<ContainerHandle> {
    const { containers } = await this.runtime.inspect(agentId, generation);
    const container = containers.find((view) => view.generation === generation && view.state === 'running');
    if (container === undefined) throw new Refusal('agent_unavailable', 'The agent’s container does not run.');
    return container.handle;
  }

  /** The command has run; the next one records that the outcome of this one is unknown. */
  private notRecorded(error: unknown): void {
    this.logger.warn({ msg: 'the end of a command could not be recorded', err: error });
  }
}

function engineAway(): Refusal {
  return new Refusal('runtime_unavailable', 'The container engine does not answer; the command was not run.');
}

function refused(error: unknown): never {
  if (error instanceof RuntimeUnavailable)
    throw new Refusal('runtime_unavailable', 'The container engine did not answer; the command may have run.');
  if (error instanceof ContainerGone || error instanceof RuntimeRefused)
    throw new Refusal('agent_unavailable', 'The agent’s container can’t run the command, or ended while it ran.');
  if (error instanceof DOMException && error.name === 'TimeoutError')
    throw new Refusal('rate_limited', 'Too many commands of this account run at once.', { retryAfterSeconds: 1 });
  throw error;
}
