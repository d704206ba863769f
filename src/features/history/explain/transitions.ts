import { beginsTransition, evolveAgent, type AgentEvent, type AgentState } from '../../agents/index.ts';
import type { StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';

/** The number of transitions that are kept. It exceeds the most causes of an explanation. */
const TRANSITIONS_KEPT_MAX = 100;

interface Transition {
  event: StoredEvent;
  before: AgentState;
}

/** Collects the transitions of an agent from its events, which are applied in order. */
export class Transitions {
  private state: AgentState = null;
  private statusSince = '';
  /** The latest transitions, oldest first. */
  private readonly latest: Transition[] = [];

  apply(event: StoredEvent): void {
    const before = this.state;
    const after = evolveAgent(before, event as unknown as AgentEvent);
    this.state = after;
    if (after === null) return;
    if (after.status !== before?.status) this.statusSince = event.at;
    // A deeper sleep does not begin a new transition.
    else if (!beginsTransition(event.type) || after.status === 'sleeping') return;
    this.latest.push({ event, before });
    if (this.latest.length > TRANSITIONS_KEPT_MAX) this.latest.shift();
  }

  get status(): string {
    return this.state?.status ?? '';
  }

  /** The time at which the agent reached its status. */
  get since(): string {
    return this.statusSince;
  }

  /** The event that set the status. */
  get last(): StoredEvent | null {
    return this.latest.at(-1)?.event ?? null;
  }

  byId(id: string): StoredEvent | null {
    return this.latest.find(({ event }) => event.id === id)?.event ?? null;
  }

  /** Returns the transition before this event. By the rules of the state machine, the event can only follow from it. */
  before(event: StoredEvent): StoredEvent | null {
    return this.latest.findLast((other) => other.event.revision < event.revision)?.event ?? null;
  }

  /** Returns the idle time in seconds after which the agent was to sleep, as it was set when the transition began. */
  idleSecondsAt({ id }: StoredEvent): number {
    return this.latest.find(({ event }) => event.id === id)?.before?.settings.idle_ttl_seconds ?? 0;
  }
}
