import { QueryHandler, type IQueryHandler } from '@nestjs/cqrs';

import { isInTransit, type Agent } from './aggregate/agent-state.decider.ts';
import { visible } from './aggregate/agents.decider.ts';
import { Agents } from './aggregate/agents.service.ts';
import { AwaitAgent, type AgentWaited } from './agents.queries.ts';

@QueryHandler(AwaitAgent)
export class AwaitAgentHandler implements IQueryHandler<AwaitAgent> {
  constructor(private readonly agents: Agents) {}

  async execute({ accountId, agentId, statuses, timeoutSeconds }: AwaitAgent): Promise<AgentWaited> {
    const look = async (): Promise<AgentWaited> => {
      const found = await this.agents.find(agentId);
      const state = visible(found.state, accountId);
      return { reached: statuses === null ? isSettled(state) : statuses.includes(state.status), agent: { ...found, state } };
    };
    const waited = await this.agents.until(agentId, async () => onlyReached(await look()), { timeoutMs: timeoutSeconds * 1000 });
    return waited ?? look();
  }
}

function onlyReached(waited: AgentWaited): AgentWaited | undefined {
  return waited.reached ? waited : undefined;
}

function isSettled(agent: Agent): boolean {
  return !isInTransit(agent) && agent.status !== 'deleting';
}
