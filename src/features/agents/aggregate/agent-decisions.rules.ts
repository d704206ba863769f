import type { Agent } from './agent-state.rules.ts';
import { agentDecider, type AgentCommand, type DeploymentRequest } from './agents.decider.ts';
import type { AgentEvent } from './agents.events.ts';

/* These functions are for code that stores an agent's events together with others in one append. */

/**
 * Returns the events of a new agent, and those of its first deployment if there is one, to be stored in one append. Other features may
 * insert events of their own between the two.
 */
export function newAgent(
  { accountId, externalId, settings }: Pick<Extract<AgentCommand, { type: 'ProvisionAgent' }>, 'accountId' | 'externalId' | 'settings'>,
  deployment: (DeploymentRequest & { deadlineAt: string }) | null,
  now: Date,
): { born: AgentEvent[]; deployed: AgentEvent[] } {
  const born = agentDecider.decide({ type: 'ProvisionAgent', accountId, externalId, settings }, null, now);
  if (deployment === null) return { born, deployed: [] };
  const deployed = agentDecider.decide(
    { type: 'DeployAgent', accountId, ...deployment },
    born.reduce(agentDecider.evolve, agentDecider.initialState()),
    now,
  );
  return { born, deployed };
}

/** Returns the events that delete the agent. */
export function deletionOf(agent: Agent, now: Date): AgentEvent[] {
  return agentDecider.decide({ type: 'DeleteAgent', accountId: agent.accountId }, agent, now);
}
