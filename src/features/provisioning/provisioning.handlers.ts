import { CommandBus, CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import { v5 as uuidv5, v7 as uuidv7 } from 'uuid';

import { ReleaseSeat, TakeSeat } from '../accounts/index.ts';
import { agentStream } from '../agents/index.ts';
import { Agents } from '../agents/services.ts';
import { Aggregates } from '../../eventsourcing/aggregates/aggregates.ts';
import { StreamClosed } from '../../eventsourcing/event-store/event-store.ts';
import type { CommandContext } from '../../kernel/context/command-context.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { AgentPlans } from './agent-plans.service.ts';
import { wholeAgentDecider, type MakeAgent } from './whole-agent.ts';
import { Provision, type ProvisionResult } from './provisioning.commands.ts';

/** The request fails after this many agents that were deleted meanwhile or were created too late. */
const ATTEMPTS_MAX = 5;

/**
 * Takes the seat first and then creates the agent, each in one append. A crash between the two leaves a seat without an agent, which the
 * next attempt reuses or the saga `seats` releases.
 */
@CommandHandler(Provision)
export class ProvisionHandler implements ICommandHandler<Provision> {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly commands: CommandBus,
    private readonly plans: AgentPlans,
    private readonly agents: Agents,
  ) {}

  async execute(provision: Provision): Promise<ProvisionResult> {
    const { context, accountId, seed } = provision;
    const make = await this.plans.make(provision);
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
      const wanted = seed === null ? uuidv7() : uuidv5(`agent ${attempt}`, seed);
      const agentId = await this.commands.execute(new TakeSeat(context, accountId, wanted, make.externalId));
      const provisioned = await this.provision(agentId, make, context);
      // An agent that an earlier attempt of this request created counts as created by this request.
      if (provisioned !== null) return { ...provisioned, isNew: provisioned.isNew || (seed !== null && agentId === wanted) };
      await this.commands.execute(new ReleaseSeat(context, accountId, agentId));
    }
    throw new ProblemError('event_store_unavailable', 'The agent could not be made in time; try again.', { retryAfterSeconds: 1 });
  }

  /**
   * Returns the agent that has the seat: the existing one, or the one created here. The first of several concurrent callers creates it
   * for all of them. Returns null if no agent can exist under that id any more, so that its seat must be released.
   */
  private async provision(agentId: string, make: MakeAgent, context: CommandContext): Promise<ProvisionResult | null> {
    try {
      const executed = await this.aggregates.execute(agentStream(agentId), wholeAgentDecider, make, context);
      const { state, events } = executed;
      if (state?.status === 'deleting') await this.waitUntilDeleted(agentId);
      if (state === null || state.status === 'deleting' || state.status === 'deleted') return null;
      return { agentId, agent: { ...executed, state }, isNew: events.length > 0 };
    } catch (error) {
      if (error instanceof StreamClosed) return null;
      throw error;
    }
  }

  private async waitUntilDeleted(agentId: string): Promise<void> {
    if ((await this.agents.untilDeleted(agentId)) !== null) return;
    throw new ProblemError('invalid_state', 'The agent with this external_id is still being deleted.', { retryAfterSeconds: 5 });
  }
}
