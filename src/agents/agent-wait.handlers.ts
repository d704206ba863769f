import { Query, QueryHandler, type IQueryHandler } from '@nestjs/cqrs';

import type { Position } from '../platform/event-store/event-store.ts';
import { isInTransit, type Agent, type AgentStatus } from './agent-state.decider.ts';
import { visible } from './agent.decider.ts';
import { Agents } from './agents.service.ts';

/** The outcome of a wait. */
export interface AgentWaited {
  /** True if the agent reached one of the statuses in time. */
  reached: boolean;
  /** The agent's status at the end of the wait. */
  status: AgentStatus;
  /** The position from which on reads see that status. */
  position: Position;
}

/** Waits, driven by events, until the agent has one of the statuses. Throws `agent_not_found`, also if the agent is deleted meanwhile. */
export class AwaitAgent extends Query<AgentWaited> {
  constructor(
    readonly accountId: string,
    readonly agentId: string,
    /** The statuses to wait for; null means any that is no transition. */
    readonly statuses: readonly AgentStatus[] | null,
    readonly timeoutSeconds: number,
  ) {
    super();
  }
}

@QueryHandler(AwaitAgent)
export class AwaitAgentHandler implements IQueryHandler<AwaitAgent> {
  constructor(private readonly agents: Agents) {}

  async execute({ accountId, agentId, statuses, timeoutSeconds }: AwaitAgent): Promise<AgentWaited> {
    const look = async (): Promise<AgentWaited> => {
      const { state, position } = await this.agents.find(agentId);
      const agent = visible(state, accountId);
      return { reached: statuses === null ? isSettled(agent) : statuses.includes(agent.status), status: agent.status, position };
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
