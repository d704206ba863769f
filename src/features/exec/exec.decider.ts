import type { Sealed } from '../../crypto/keyring.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import type { Decider } from '../../eventsourcing/event-store/event-definition.ts';
import { ownerOf, sandboxIdOf } from '../../sandboxes/sandbox-id.ts';
import type { ExecEvent, ExecFailure, TerminalEnd } from './exec.events.ts';

/** The most commands that run concurrently in one agent. */
export const RUNNING_MAX = 8;
/** The number of commands whose ids are remembered, so that a repeated request does not run one again. */
export const LATEST_MAX = 100;

interface RunningExec {
  id: string;
  /** The time (ISO 8601) by which the command has certainly ended, even if the process that ran it died. */
  endsBy: string;
}

/** The commands of one agent. */
export interface AgentExecs {
  agentId: string;
  running: RunningExec[];
  /** The ids of the latest commands, oldest first. */
  latest: string[];
}

export type AgentExecsState = AgentExecs | null;

interface StartExec {
  type: 'StartExec';
  agentId: string;
  execId: string;
  command: Sealed;
  /** The folder and the session; null if it has neither. */
  location: Sealed | null;
  timeoutSeconds: number;
  endsBy: string;
}

export type ExecCommand =
  | StartExec
  | { type: 'EndExec'; execId: string; exitCode: number; timedOut: boolean; truncated: boolean }
  | { type: 'FailExec'; execId: string; failure: ExecFailure }
  | { type: 'IssueTerminalTicket'; agentId: string; expiresAt: string }
  | { type: 'OpenTerminal'; agentId: string; terminalId: string }
  | { type: 'CloseTerminal'; agentId: string; terminalId: string; end: TerminalEnd; exitCode: number | null };

function decide(command: ExecCommand, state: AgentExecsState, now: Date): ExecEvent[] {
  switch (command.type) {
    case 'StartExec':
      return start(command, state, now);
    case 'EndExec':
    case 'FailExec':
      return end(command, state);
    case 'IssueTerminalTicket':
      return [{ type: 'TerminalTicketIssued', data: { agent_id: command.agentId, expires_at: command.expiresAt } }];
    case 'OpenTerminal':
      return [{ type: 'TerminalOpened', data: { agent_id: command.agentId, terminal_id: command.terminalId } }];
    case 'CloseTerminal': {
      const { agentId: agent_id, terminalId: terminal_id, exitCode: exit_code } = command;
      return [{ type: 'TerminalClosed', data: { agent_id, terminal_id, end: command.end, exit_code } }];
    }
  }
}

function end(command: Extract<ExecCommand, { type: 'EndExec' | 'FailExec' }>, state: AgentExecsState): ExecEvent[] {
  if (state === null || !state.running.some(({ id }) => id === command.execId)) return [];
  const ids = { ...ownerOf(state.agentId), exec_id: command.execId };
  if (command.type === 'FailExec') return [{ type: 'ExecFailed', data: { ...ids, failure: command.failure } }];
  const { exitCode: exit_code, timedOut: timed_out, truncated } = command;
  return [{ type: 'ExecEnded', data: { ...ids, exit_code, timed_out, truncated } }];
}

function start(command: StartExec, state: AgentExecsState, now: Date): ExecEvent[] {
  const { execId: exec_id, location, timeoutSeconds: timeout_seconds, endsBy: ends_by } = command;
  if (state?.latest.includes(exec_id))
    throw new ProblemError(
      'invalid_state',
      'The command of this Idempotency-Key was started before, and is not run again; its outcome is unknown.',
    );
  const owner = ownerOf(command.agentId);
  const running = state?.running ?? [];
  const over = running.filter(({ endsBy }) => Date.parse(endsBy) <= now.getTime());
  if (running.length - over.length >= RUNNING_MAX)
    throw new ProblemError('rate_limited', `${RUNNING_MAX} commands run in this agent already.`, { retryAfterSeconds: 1 });
  return [
    ...over.map(({ id }): ExecEvent => ({ type: 'ExecFailed', data: { ...owner, exec_id: id, failure: 'unknown' } })),
    {
      type: 'ExecStarted',
      data: { ...owner, exec_id, command: command.command, ...(location === null ? {} : { place: location }), timeout_seconds, ends_by },
    },
  ];
}

function evolve(state: AgentExecsState, event: ExecEvent): AgentExecsState {
  const execs = state ?? { agentId: sandboxIdOf(event.data), running: [], latest: [] };
  switch (event.type) {
    case 'ExecStarted': {
      const { exec_id: id } = event.data;
      const running = [...execs.running, { id, endsBy: event.data.ends_by }];
      return { ...execs, running, latest: [...execs.latest, id].slice(-LATEST_MAX) };
    }
    case 'ExecEnded':
    case 'ExecFailed':
      return { ...execs, running: execs.running.filter((exec) => exec.id !== event.data.exec_id) };
    case 'TerminalTicketIssued':
    case 'TerminalOpened':
    case 'TerminalClosed':
      return state;
    default:
      event satisfies never;
      return execs;
  }
}

export const execDecider: Decider<AgentExecsState, ExecCommand, ExecEvent> = {
  initialState: () => null,
  decide,
  evolve,
  snapshot: { name: 'exec', version: 1, subject: (execs) => execs?.agentId ?? null },
};
