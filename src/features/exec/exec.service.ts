import { Injectable, Logger } from '@nestjs/common';

import { sharesOf } from '../../kernel/limits/account-counter.ts';
import { FairLimiter } from '../../kernel/limits/fair-limiter.ts';
import { ReadShare } from '../../kernel/limits/read-share.ts';
import type { CommandContext } from '../../kernel/context/command-context.ts';
import { ContainerRuntime, type ExecResult, type OutputStream } from '../../runtime/runtime.ts';
import type { ContainerHandle } from '../../runtime/container.ts';
import { LiveContainers } from '../../sandboxes/services.ts';
import { AgentExecs } from './agent-execs.service.ts';
import { argvOf } from './command-fields.ts';
import { throwCommandRefusal } from './container-terminals.service.ts';
import type { ExecFailure } from './exec.events.ts';

/** The limit of what a command may print to stdout and stderr together, in bytes (docs/reference/limits.md). */
const OUTPUT_BYTES = 256 * 1024;
/** The number of commands that one process runs at once; an account may have a quarter of them. */
const EXECS = sharesOf(128);
/** The bytes of output that one process reads in a second, of which an account may have a quarter, and those of one command at a time. */
const READ_BYTES = { perSecond: 8 * 1024 * 1024, atATime: 64 * 1024 };

/** A caller's request to run a command in an agent. */
export interface ExecOrder {
  context: CommandContext;
  accountId: string;
  agentId: string;
  /** The id of this run, which is the same for every attempt under one `Idempotency-Key`. */
  execId: string;
  /** The program and its arguments, or a string for `/bin/sh -c`. */
  command: string | string[];
  /** The folder in which it starts; null means the volume, or the folder of the session. */
  cwd: string | null;
  /** The session whose shell runs it; null if it runs outside a session. */
  session: string | null;
  environment: Record<string, string>;
  stdin: Buffer | null;
  timeoutSeconds: number;
  /** The value false refuses a sleeping container instead of waking it. */
  wake?: boolean;
  /** The signal that aborts when the caller has gone; the command is then killed. */
  signal: AbortSignal;
}

/** Observes a running command. */
export interface ExecListener {
  /** Called before the command runs. `woken` is true if the agent had to be woken. Nothing is refused from here on. */
  onStart?: (woken: boolean) => void;
  /** Receives the output as it arrives. The result then contains none. */
  onOutput?: (stream: OutputStream, bytes: Buffer) => void;
}

/** Runs commands in agents. It wakes the agent first, and records the caller. */
@Injectable()
export class Exec {
  private readonly logger = new Logger('Exec');
  private readonly slots = { limiter: new FairLimiter(EXECS), full: 'Too many commands of this account run at once.' };
  private readonly share = new ReadShare(READ_BYTES);

  constructor(
    private readonly containers: LiveContainers,
    private readonly runtime: ContainerRuntime,
    private readonly execs: AgentExecs,
  ) {}

  /**
   * Runs the command and waits for its end. Throws `agent_not_found`, `agent_unavailable`, `runtime_unavailable`, `rate_limited`,
   * `invalid_state` for an `execId` that was started before, and the signal's reason if it aborts.
   */
  run(order: ExecOrder, listener: ExecListener = {}): Promise<ExecResult> {
    const { accountId, agentId, context, signal, wake = true } = order;
    const need = { sandboxId: agentId, accountId, context, signal, wake, trigger: 'exec' };
    const work = (handle: ContainerHandle, woken: boolean) => this.runRecorded(order, handle, woken, listener);
    return this.containers.use(need, this.slots, work).catch((error: unknown) => throwCommandRefusal(agentId, error));
  }

  private async runRecorded(
    order: ExecOrder,
    handle: ContainerHandle,
    woken: boolean,
    { onStart, onOutput }: ExecListener,
  ): Promise<ExecResult> {
    await this.execs.start(order);
    onStart?.(woken);
    try {
      const result = await this.runtime.exec(handle, {
        argv: argvOf(order.command),
        ...(order.cwd === null ? {} : { cwd: order.cwd }),
        ...(order.session === null ? {} : { session: order.session }),
        ...(order.stdin === null ? {} : { stdin: order.stdin }),
        environment: order.environment,
        timeoutMs: order.timeoutSeconds * 1_000,
        outputLimitBytes: OUTPUT_BYTES,
        signal: order.signal,
        onOutput,
        pace: this.share.reader(order.accountId, order.signal),
      });
      await this.execs.end(order, result).catch((error: unknown) => this.logUnrecorded(error));
      return result;
    } catch (error) {
      const failure: ExecFailure = order.signal.aborted ? 'canceled' : 'interrupted';
      await this.execs.fail(order, failure).catch((reason: unknown) => this.logUnrecorded(reason));
      throw error;
    }
  }

  /** The command has run, so the caller gets its result. The next command records that the outcome of this one is unknown. */
  private logUnrecorded(error: unknown): void {
    this.logger.warn({ msg: 'the end of a command could not be recorded', err: error });
  }
}
