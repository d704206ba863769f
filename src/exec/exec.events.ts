import type { Sealed } from '../platform/crypto/keyring.ts';
import { defineEvent, type EventsOf } from '../platform/event-store/event-definition.ts';

/** The reason why the exit code of a command is not known. */
export type ExecFailure =
  /** The caller went away, so the command was killed. */
  | 'canceled'
  /** The container ended, or the engine did not answer. */
  | 'interrupted'
  /** The process that ran it ended before it recorded the end. The command was killed at its deadline at the latest. */
  | 'unknown';

/** Commands may hold secrets, so they are encrypted with the agent's data key; what they print is not recorded. */
export const execEvents = {
  ExecStarted: defineEvent<{ agent_id: string; exec_id: string; command: Sealed; timeout_seconds: number; ends_by: string }>()(
    'ExecStarted',
    ({ timeout_seconds }) => `Ran a command in the agent, for at most ${timeout_seconds} s`,
  ),
  ExecEnded: defineEvent<{ agent_id: string; exec_id: string; exit_code: number; timed_out: boolean; truncated: boolean }>()(
    'ExecEnded',
    ({ exit_code, timed_out }) => (timed_out ? 'The command was killed at its deadline' : `The command ended with exit code ${exit_code}`),
  ),
  ExecFailed: defineEvent<{ agent_id: string; exec_id: string; failure: ExecFailure }>()('ExecFailed', ({ failure }) => SENTENCES[failure]),
};

const SENTENCES: Record<ExecFailure, string> = {
  canceled: 'The command was killed, because its caller went away',
  interrupted: 'The command was interrupted, because the container ended or the engine did not answer',
  unknown: 'The outcome of the command is unknown, because the service ended meanwhile',
};

export type ExecEvent = EventsOf<typeof execEvents>;
