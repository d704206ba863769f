import { Injectable } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';

import type { Loaded } from '../../eventsourcing/aggregates/dated-state.ts';
import type { RequestContext } from '../../http/server/request-context.ts';
import type { Agent } from './aggregate/agent-state.rules.ts';
import { AwaitAgent } from './agents.queries.ts';

/** Lets callers who prefer it wait until an agent that they changed has settled. */
@Injectable()
export class AgentWaits {
  constructor(private readonly queries: QueryBus) {}

  /**
   * Returns the agent as it was written or, if the caller waits up to `wait` seconds, as it is when it has settled, which is answered with
   * 200, or when the time is over. The call's response shows that state.
   */
  async settled(agentId: string, written: Loaded<Agent>, wait: number | null, call: RequestContext): Promise<Loaded<Agent>> {
    if (wait === null) {
      call.setState(written);
      return written;
    }
    const { reached, agent } = await this.queries.execute(new AwaitAgent(call.accountId, agentId, null, wait));
    if (reached) {
      call.setStatus(200);
      call.setPreferenceApplied();
    }
    call.setState(agent);
    return agent;
  }
}
