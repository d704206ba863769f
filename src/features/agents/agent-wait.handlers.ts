import { QueryHandler, type IQueryHandler } from '@nestjs/cqrs';

import { isInTransit, type Agent } from './aggregate/agent-state.rules.ts';
import { requireVisible } from './aggregate/agents.decider.ts';
import { Agents } from './aggregate/agents.service.ts';
import { AwaitAgent, type AgentWaitResult } from './agents.queries.ts';

@QueryHandler(AwaitAgent)
export class AwaitAgentHandler implements IQueryHandler<AwaitAgent> {
  constructor(private readonly agents: Agents) {}

  async execute({ accountId, agentId, statuses, timeoutSeconds }: AwaitAgent): Promise<AgentWaitResult> {
    const look = async (): Promise<AgentWaitResult> => {
      const found = await this.agents.find(agentId);
      const state = requireVisible(found.state, accountId);
      return { reached: statuses === null ? isSettled(state) : statuses.includes(state.status), agent: { ...found, state } };
    };
    const waited = await this.agents.until(agentId, async () => resultIfReached(await look()), { timeoutMs: timeoutSeconds * 1000 });
    return waited ?? look();
  }
}

function resultIfReached(waited: AgentWaitResult): AgentWaitResult | undefined {
  return waited.reached ? waited : undefined;
}

function isSettled(agent: Agent): boolean {
  return !isInTransit(agent) && agent.status !== 'deleting';
}
