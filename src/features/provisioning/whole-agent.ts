import { evolveAgent, newAgent, type AgentEvent, type AgentSettings, type AgentState, type DeploymentRequest } from '../agents/index.ts';
import { environmentDecider, type EnvironmentCommand, type EnvironmentEvent } from '../environment/index.ts';
import type { VariableInput } from './variable-inputs.ts';
import type { Decider } from '../../eventsourcing/event-store/event-definition.ts';

export interface MakeAgent {
  type: 'MakeAgent';
  accountId: string;
  externalId: string | null;
  settings: AgentSettings;
  variables: Record<string, VariableInput>;
  /** The value is null if the agent is not deployed yet. */
  deployment: DeploymentRequest | null;
  deploymentDeadline(now: Date): string;
}

/** The rules of a new agent with its variables and its first deployment, for one append, so that no part is ever stored alone. */
export const wholeAgentDecider: Decider<AgentState, MakeAgent, AgentEvent | EnvironmentEvent> = {
  initialState: () => null,
  decide,
  evolve: (agent, event) => evolveAgent(agent, event as AgentEvent),
};

function decide(make: MakeAgent, agent: AgentState, now: Date): (AgentEvent | EnvironmentEvent)[] {
  if (agent !== null) return [];
  const { accountId, variables, deployment } = make;
  const { born, deployed } = newAgent(make, deployment && { deadlineAt: make.deploymentDeadline(now), ...deployment }, now);
  const events: (AgentEvent | EnvironmentEvent)[] = [...born];
  let environment = born.reduce(
    (before, event) => environmentDecider.evolve(before, event as unknown as EnvironmentEvent),
    environmentDecider.initialState(),
  );
  for (const [key, given] of Object.entries(variables)) {
    const set: EnvironmentCommand =
      typeof given === 'string'
        ? { type: 'SetVariable', accountId, key, isSecret: false, value: { plain: given, sealed: null, mask: '' } }
        : { type: 'LinkVariable', accountId, key, secret: given.secret, mustExist: false };
    const follows = environmentDecider.decide(set, environment, now);
    environment = follows.reduce((before, event) => environmentDecider.evolve(before, event), environment);
    events.push(...follows);
  }
  return [...events, ...deployed];
}
