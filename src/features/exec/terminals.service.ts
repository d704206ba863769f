/*
 * Serves terminals: a shell in an agent's container, connected to a caller's WebSocket.
 *
 * It owns the open terminals of this process and their number per agent. It does not own the bytes (terminal-connection.ts), the records
 * (`AgentExecs`), or the wake (`WakeGate`).
 *
 * Invariants:
 * T1. A terminal is recorded before its caller can type, and its end is recorded however it ends, also when the service stops.
 * T2. The agent is held awake while the terminal opens, and for INPUT_HOLD_MS after an input. Watching the output does not keep it awake.
 * T3. When the caller's connection ends, the shell and all that it started are killed. When the shell ends, the connection is closed with
 *     the reason.
 * T4. An agent has at most TERMINALS_PER_AGENT terminals through this process; each counts as an open stream of its account, too.
 */

import { type BeforeApplicationShutdown, Injectable, Logger } from '@nestjs/common';
import type { WebSocket } from 'ws';

import { timeoutSignal } from '../../kernel/async/timeout-signal.ts';
import { pause } from '../../kernel/async/pause.ts';
import { raceAbort } from '../../kernel/async/race-abort.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { AccountCounter } from '../../kernel/limits/account-counter.ts';
import type { RequestContext } from '../../http/server/request-context.ts';
import { CLOSE } from '../../http/server/close-codes.ts';
import { WebSockets } from '../../http/server/web-sockets.ts';
import type { Terminal } from '../../runtime/runtime.ts';
import { WakeGate } from '../../sandboxes/services.ts';
import { AgentExecs } from './agent-execs.service.ts';
import { throwCommandRefusal, ContainerTerminals } from './container-terminals.service.ts';
import type { TerminalEnd } from './exec.events.ts';
import { connectTerminal, FRAME_BYTES_MAX } from './terminal-connection.ts';

/** T4 */
const TERMINALS_PER_AGENT = 8;
/** T2: one input keeps the agent awake for this time, in ms. The idle time starts afterwards. */
const INPUT_HOLD_MS = 5_000;
/**
 * The longest wait, in ms, for the end of everything that the shell has started: after the shell ended, and after the caller has gone. In a
 * frozen agent the processes end when it wakes.
 */
const END_TIMEOUT_MS = { shell: 15_000, socket: 5_000 };

/** A terminal that a caller wants in an agent. */
export interface TerminalOpening {
  call: RequestContext;
  agentId: string;
  terminalId: string;
  cols: number;
  rows: number;
}

interface OpenTerminal {
  terminal: Terminal;
  socket: WebSocket;
  generation: number;
}

/** Serves terminals in agents. It wakes the agent first, and records who opened each terminal and how it ended. */
@Injectable()
export class Terminals implements BeforeApplicationShutdown {
  private readonly logger = new Logger('Terminals');
  private readonly running = new Set<Promise<void>>();
  private readonly open = new AccountCounter({ agent: TERMINALS_PER_AGENT });

  constructor(
    private readonly gate: WakeGate,
    private readonly containers: ContainerTerminals,
    private readonly execs: AgentExecs,
    private readonly sockets: WebSockets,
  ) {}

  /**
   * Serves a terminal until it ends. Before it is open, throws what `WebSockets.check` throws, `agent_not_found`, `agent_unavailable`,
   * `runtime_unavailable` and `rate_limited`.
   */
  async serve(order: TerminalOpening): Promise<void> {
    const { call, agentId } = order;
    this.sockets.check(call);
    await this.containers.requireEngine();
    const gone = call.goneSignal();
    const { accountId, context } = call;
    const need = { sandboxId: agentId, accountId, context, signal: gone, trigger: 'terminal' };
    const { result: open } = await this.gate
      .whileAwake(need, ({ generation }) => this.openTerminal(order, generation, gone))
      .catch((error: unknown) => throwCommandRefusal(agentId, error));
    const serving = this.serveUntilEnd(order, open, this.inputHold(need));
    this.running.add(serving);
    await serving.finally(() => this.running.delete(serving));
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.sockets.closeAll();
    await Promise.allSettled(this.running);
  }

  private async openTerminal(order: TerminalOpening, generation: number, gone: AbortSignal): Promise<OpenTerminal> {
    const { call, agentId, cols, rows } = order;
    this.acquireSlot(call, agentId);
    const ending = new AbortController();
    const signal = AbortSignal.any([gone, ending.signal]);
    const terminal = await this.containers.open(agentId, generation, { cols, rows, signal });
    try {
      // T1
      await this.execs.openTerminal(recordOf(order));
      const socket = await this.sockets.accept(call, FRAME_BYTES_MAX).catch(async (error: unknown) => {
        await this.recordEnd(order, 'hung_up', null);
        throw error;
      });
      return { terminal, socket, generation };
    } catch (error) {
      ending.abort();
      throw error;
    }
  }

  /** T4: counts a terminal of the agent until its connection closes. */
  private acquireSlot(call: RequestContext, agentId: string): void {
    const release = this.open.tryAcquire({ account: call.accountId, agent: agentId });
    if (release === null)
      throw new ProblemError('rate_limited', `${TERMINALS_PER_AGENT} terminals are open in this agent already.`, { retryAfterSeconds: 10 });
    call.onClose(release);
  }

  /** T3: passes bytes on until one side ends, and records how it ended. Never throws. */
  private async serveUntilEnd(order: TerminalOpening, { terminal, socket, generation }: OpenTerminal, hold: () => void): Promise<void> {
    const first = await connectTerminal(socket, terminal, hold);
    const exitCode = await raceAbort(terminal.ended, timeoutSignal(END_TIMEOUT_MS[first])).catch(() => null);
    const end: TerminalEnd =
      first === 'shell' ? await this.endReasonOf(order.agentId, generation) : this.sockets.stopping ? 'stopped' : 'hung_up';
    const reason = end === 'agent_ended' ? 'The agent’s container ended.' : `The shell ended with exit code ${exitCode ?? 'unknown'}.`;
    if (first === 'shell') socket.close(end === 'agent_ended' ? CLOSE.goingAway : CLOSE.normal, reason);
    await this.recordEnd(order, end, exitCode);
  }

  /** Returns whether the shell ended by itself or with its container. */
  private async endReasonOf(agentId: string, generation: number): Promise<TerminalEnd> {
    return (await this.gate.isSameRun(agentId, generation).catch(() => false)) ? 'exited' : 'agent_ended';
  }

  /**
   * T2: returns a function for each input. It wakes the agent if it sleeps, and holds it awake for a moment, so that the agent counts as used at
   * the last input.
   */
  private inputHold(need: Parameters<WakeGate['whileAwake']>[0]): () => void {
    let isHeld = false;
    return () => {
      if (isHeld || need.signal.aborted) return;
      isHeld = true;
      void this.gate
        .whileAwake(need, () => pause(INPUT_HOLD_MS, need.signal))
        // If the agent must not be woken, its terminals have ended or are ending.
        .catch(() => undefined)
        .finally(() => (isHeld = false));
    };
  }

  private async recordEnd(order: TerminalOpening, end: TerminalEnd, exitCode: number | null): Promise<void> {
    try {
      await this.execs.closeTerminal(recordOf(order), end, exitCode);
    } catch (error) {
      this.logger.warn({ msg: 'the end of a terminal could not be recorded', err: error });
    }
  }
}

function recordOf({ agentId, terminalId, call: { context } }: TerminalOpening) {
  return { agentId, terminalId, context };
}
