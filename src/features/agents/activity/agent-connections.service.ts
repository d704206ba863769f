import { Injectable, type OnModuleDestroy } from '@nestjs/common';

import { agentConnectionPool } from '../../../agent-protocol/agent-connection-pool.ts';
import { categoryOf, idOf, type StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { LogFollower } from '../../../eventsourcing/log/log-follower.ts';

/**
 * Closes the connections that this process keeps to an agent at each event of it, of which most end its container, or its run: servers that end
 * gracefully wait for connections to be closed.
 */
@Injectable()
export class AgentConnections implements OnModuleDestroy {
  private readonly stopListening: () => void;

  constructor(follower: LogFollower) {
    this.stopListening = follower.listen({ onEvents: (events) => events.forEach(onEvent), onGap: () => agentConnectionPool.closeIdle() });
  }

  onModuleDestroy(): void {
    this.stopListening();
    agentConnectionPool.closeIdle();
  }
}

function onEvent({ stream }: StoredEvent): void {
  if (categoryOf(stream) === 'agent') agentConnectionPool.closeIdleOf(idOf(stream));
}
