import { defineEvent } from '../platform/event-store/event-definition.ts';

export const deploymentEvents = {
  /** On `deployment-<id>`; what happens to the deployment itself stands on the agent's stream. */
  BuildLogCaptured: defineEvent<{ agent_id: string; first_line: number; lines: string[] }>()(
    'BuildLogCaptured',
    ({ lines }) => `Wrote ${lines.length} lines of build log`,
  ),
};
