import { Query, QueryHandler, type IQueryHandler } from '@nestjs/cqrs';

import { Aggregates } from '../platform/event-store/aggregates.ts';
import { EventWaits } from '../platform/event-store/event-waits.ts';
import type { Position } from '../platform/event-store/event-store.ts';
import { isInTransit, type Agent, type AgentStatus } from './agent-state.decider.ts';
import { agentDecider, visible } from './agent.decider.ts';

/** How a wait ended. */
export interface AgentWaited {
  /** Whether the agent came to what was waited for in time. */
  reached: boolean;
  /** Its status then. */
  status: AgentStatus;
  /** Who reads from there on sees it so. */
  position: Position;
}

/** Waits, driven by events, until the agent is in one of the statuses. Throws `agent_not_found`, also where it is deleted meanwhile. */
export class AwaitAgent extends Query<AgentWaited> {
  constructor(
    readonly accountId: string,
    readonly agentId: string,
    /** Null: any but those in transition. */
    readonly statuses: readonly AgentStatus[] | null,
    readonly timeoutSeconds: number,
  ) {
    super();
  }
}

@QueryHandler(AwaitAgent)
export class AwaitAgentHandler implements IQueryHandler<AwaitAgent> {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly waits: EventWaits,
  ) {}

  async execute({ accountId, agentId, statuses, timeoutSeconds }: AwaitAgent): Promise<AgentWaited> {
    const look = async (): Promise<AgentWaited> => {
      const { state, position } = await this.aggregates.load(`agent-${agentId}`, agentDecider);
      const agent = visible(state, accountId);
      return { reached: statuses === null ? isSettled(agent) : statuses.includes(agent.status), status: agent.status, position };
    };
    const waited = await this.waits.until(`agent-${agentId}`, async () => onlyReached(await look()), { timeoutMs: timeoutSeconds * 1000 });
    return waited ?? look();
  }
}

function onlyReached(waited: AgentWaited): AgentWaited | undefined {
  return waited.reached ? waited : undefined;
}

function isSettled(agent: Agent): boolean {
  return !isInTransit(agent) && agent.status !== 'deleting';
}
