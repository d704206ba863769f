import type { Sealed } from '../../crypto/keyring.ts';
import { defineEvent, type EventsOf } from '../../eventsourcing/event-store/event-definition.ts';

/** The way in which a command ended. */
export type CommandEnd =
  | 'exited'
  /** A signal ended it. */
  | 'killed'
  /** Its container ended: by a deep sleep, a stop, a restart or a deployment. */
  | 'ended_by_sleep'
  /** Its container refused to start it. */
  | 'not_started'
  /** Its container does not know it: it was not started, or the agent ended what kept it. */
  | 'lost';

type OfCommand = { agent_id: string; command_id: string };

/**
 * A command, its folder and its name may hold secrets, so they are encrypted with the agent's data key. Its variables, its input and its output
 * are not recorded.
 */
export const commandEvents = {
  AgentCommandStarted: defineEvent<
    OfCommand & {
      /** The container in which it runs. */
      generation: number;
      command: Sealed;
      started_at: string;
      /** The command starts by this time, or never. */
      starts_by: string;
      /** The time until which it keeps its agent awake; null if it does not. */
      keep_awake_until: string | null;
    }
  >()('AgentCommandStarted', ({ keep_awake_until }) =>
    keep_awake_until === null
      ? 'Started a command that goes on in the agent'
      : `Started a command that goes on in the agent, and holds it awake until ${keep_awake_until} at most`,
  ),
  AgentCommandInputSent: defineEvent<OfCommand & { act_id: string; bytes: number; closes: boolean }>()(
    'AgentCommandInputSent',
    ({ bytes, closes }) => `Sent ${bytes} bytes to the input of a command${closes ? ', and closed it' : ''}`,
  ),
  AgentCommandSignaled: defineEvent<OfCommand & { act_id: string; signal: string }>()(
    'AgentCommandSignaled',
    ({ signal }) => `Sent ${signal} to a command`,
  ),
  AgentCommandEnded: defineEvent<
    OfCommand & {
      end: CommandEnd;
      /** The exit code; null if there is none. */
      exit_code: number | null;
      /** The bytes that it printed, and those of them at the beginning that were not kept; null if that is not known. */
      output_bytes: number | null;
      dropped_bytes: number | null;
      /** The command that is not listed any more because this one is; null if none is dropped. */
      drops: string | null;
    }
  >()('AgentCommandEnded', ({ end, exit_code }) => SENTENCES[end](exit_code)),
  AgentCommandRemoved: defineEvent<OfCommand>()('AgentCommandRemoved', () => 'Removed a command, which was killed if it ran'),
};

const SENTENCES: Record<CommandEnd, (exitCode: number | null) => string> = {
  exited: (exitCode) => `The command ended with exit code ${exitCode}`,
  killed: (exitCode) => `The command was ended by a signal, with exit code ${exitCode}`,
  ended_by_sleep: () => 'The command ended with its container',
  not_started: () => 'The command was not started',
  lost: () => 'The command is unknown in its container: it was not started, or what kept it was ended',
};

export type CommandEvent = EventsOf<typeof commandEvents>;
