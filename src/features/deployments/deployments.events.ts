import { defineEvent } from '../../eventsourcing/event-store/event-definition.ts';

export const deploymentEvents = {
  /** The event is on `deployment-<id>`. Events about the deployment itself are on the agent's stream. */
  BuildLogCaptured: defineEvent<{ agent_id: string; first_line: number; lines: string[] }>()(
    'BuildLogCaptured',
    ({ lines }) => `Wrote ${lines.length} lines of build log`,
  ),
};
