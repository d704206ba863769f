import type { ProtocolName } from '../../agent-protocol/protocol-names.ts';

/**
 * The settings by which an agent says how it is built, run and reached: in requests, and in the file mooring.json of its repository. A member
 * that is absent or null is not said.
 */
export type RunSettings = {
  /** The protocol in which the agent takes messages. */
  protocol?: ProtocolName | null;
  /** The port on which the agent listens, which is the value of its variable PORT. */
  port?: number | null;
  /** The path that answers 2xx once the agent is ready, or `tcp` if it is ready as soon as its port accepts connections. */
  health_path?: string | null;
  /** The start command, in exec form. */
  start?: string[] | null;
  /** The folder of the repository that contains the agent, relative to the repository's root. */
  root?: string | null;
  /** The time in seconds within which a container must be ready. */
  start_timeout?: number | null;
  memory_mb?: number | null;
  /** The number of processors; 0.5 is half of one. */
  cpus?: number | null;
  /** The path on which the agent answers the handshakes of webhooks' senders. */
  webhook_handshake?: string | null;
  /** The names of the variables that the build gets. */
  build_variables?: string[] | null;
};

export type RunSettingName = keyof RunSettings;
