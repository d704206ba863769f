import { Injectable } from '@nestjs/common';

import { Aggregates } from '../../../eventsourcing/aggregates/aggregates.ts';
import type { Loaded } from '../../../eventsourcing/aggregates/dated-state.ts';
import { EventStore, type Position } from '../../../eventsourcing/event-store/event-store.ts';
import { EventWaits } from '../../../eventsourcing/log/event-waits.ts';
import { NETWORK_BITS, networkOf } from '../../../kernel/network/network-of.ts';
import { SandboxAggregates } from '../../../sandboxes/index.ts';
import type { Agent, AgentState } from './agent-state.rules.ts';
import { agentStream } from './agent-stream.ts';
import { agentDecider, requireOwned, type AgentCommand } from './agents.decider.ts';
import { agentNotFound } from './agents.errors.ts';
import type { AgentEvent } from './agents.events.ts';

/** The events of an agent's variables and files are in the same stream. */
@Injectable()
export class Agents extends SandboxAggregates<Agent, AgentCommand, AgentEvent> {
  constructor(aggregates: Aggregates, store: EventStore, waits: EventWaits) {
    super(aggregates, store, waits, {
      decider: agentDecider,
      streamOf: agentStream,
      subjectOf: (agentId) => agentId,
      requireOwned: requireOwned,
      notFound: agentNotFound,
    });
  }

  /** Like `find`, for an unauthenticated caller at that address. Throws `rate_limited`; see `Aggregates.loadForAnonymous`. */
  findForStranger(agentId: string, address: string, upTo?: Position): Promise<Loaded<AgentState>> {
    return this.aggregates.loadForAnonymous(networkOf(address, NETWORK_BITS), agentStream(agentId), agentDecider, upTo);
  }
}
