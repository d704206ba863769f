import type { Sealed } from '../../crypto/keyring.ts';
import { defineEvent, type EventsOf } from '../../eventsourcing/event-store/event-definition.ts';
import type { SandboxOwner } from '../../sandboxes/index.ts';

/** The reason why the exit code of a command is not known. */
export type ExecFailure =
  /** The caller went away, so the command was killed. */
  | 'canceled'
  /** The container ended, or the engine did not answer. */
  | 'interrupted'
  /** The process that ran it ended before it recorded the end. The command was killed at its deadline at the latest. */
  | 'unknown';

/** The way in which a terminal ended. */
export type TerminalEnd =
  /** Its shell ended. */
  | 'exited'
  /** The connection was closed, or it broke, or the credential under which it was opened ended. */
  | 'hung_up'
  /** The agent was stopped, deployed again or deleted, or it failed. */
  | 'agent_ended'
  /** The service was stopped. */
  | 'stopped';

/**
 * Commands, folders and names of sessions may hold secrets, so they are encrypted with the agent's data key. What a command gets as variables and
 * input, and what it prints, is not recorded.
 */
export const execEvents = {
  ExecStarted: defineEvent<
    SandboxOwner & {
      exec_id: string;
      command: Sealed;
      /** The folder and the session; absent if it has neither. */
      place?: Sealed;
      timeout_seconds: number;
      ends_by: string;
    }
  >()('ExecStarted', ({ timeout_seconds, ...owner }) => `Ran a command in ${nameOf(owner)}, for at most ${timeout_seconds} s`),
  ExecEnded: defineEvent<SandboxOwner & { exec_id: string; exit_code: number; timed_out: boolean; truncated: boolean }>()(
    'ExecEnded',
    ({ exit_code, timed_out }) => (timed_out ? 'The command was killed at its deadline' : `The command ended with exit code ${exit_code}`),
  ),
  TerminalTicketIssued: defineEvent<{ agent_id: string; expires_at: string }>()(
    'TerminalTicketIssued',
    ({ expires_at }) => `Got a ticket for a terminal in the agent, valid until ${expires_at}`,
  ),
  TerminalOpened: defineEvent<{ agent_id: string; terminal_id: string }>()('TerminalOpened', () => 'Opened a terminal in the agent'),
  TerminalClosed: defineEvent<{ agent_id: string; terminal_id: string; end: TerminalEnd; exit_code: number | null }>()(
    'TerminalClosed',
    ({ end, exit_code }) => `${ENDS[end]}${exit_code === null ? '' : `; its shell’s exit code was ${exit_code}`}`,
  ),
  ExecFailed: defineEvent<SandboxOwner & { exec_id: string; failure: ExecFailure }>()('ExecFailed', ({ failure }) => SENTENCES[failure]),
};

const nameOf = (owner: SandboxOwner): string => ('computer_id' in owner ? 'the computer' : 'the agent');

const SENTENCES: Record<ExecFailure, string> = {
  canceled: 'The command was killed, because its caller went away',
  interrupted: 'The command was interrupted, because the container ended or the engine did not answer',
  unknown: 'The outcome of the command is unknown, because the service ended meanwhile',
};

const ENDS: Record<TerminalEnd, string> = {
  exited: 'The terminal ended with its shell',
  hung_up: 'The terminal was closed',
  agent_ended: 'The terminal ended with the agent’s container',
  stopped: 'The terminal was closed, because the service stopped',
};

export type ExecEvent = EventsOf<typeof execEvents>;
