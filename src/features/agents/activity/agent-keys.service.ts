import { Injectable, type OnModuleDestroy } from '@nestjs/common';

import { Keyring } from '../../../crypto/keyring.ts';
import { categoryOf, idOf } from '../../../eventsourcing/event-store/event-store.ts';
import { LogFollower } from '../../../eventsourcing/log/log-follower.ts';
import type { agentEvents } from '../aggregate/agents.events.ts';

/** The event after which an agent's data key is destroyed, and the one that is appended once it is. */
const ENDS: ReadonlySet<string> = new Set<keyof typeof agentEvents>(['AgentDeletionRequested', 'AgentDeleted']);

/** Tells the keyring when agents end, so that it may use their keys without a look at the table until then. */
@Injectable()
export class AgentKeys implements OnModuleDestroy {
  private readonly stopListening: () => void;

  constructor(keyring: Keyring, follower: LogFollower) {
    const ends = keyring.rememberUntilEnded(follower);
    this.stopListening = follower.listen({
      onEvents: (events) => {
        for (const { stream, type } of events) if (ENDS.has(type) && categoryOf(stream) === 'agent') ends.onEnd(idOf(stream));
      },
      onGap: () => ends.onGap(),
    });
  }

  onModuleDestroy(): void {
    this.stopListening();
  }
}
