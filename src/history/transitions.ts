import { agentDecider, beginsTransition, type AgentEvent, type AgentState } from '../agents/index.ts';
import type { StoredEvent } from '../platform/event-store/event-store.ts';

/** Transitions that are kept of an agent: more than a chain of causes may name. */
const KEPT = 100;

interface Transition {
  event: StoredEvent;
  before: AgentState;
}

/** What brought an agent to the status in which it is, from its events in order. */
export class Transitions {
  #state: AgentState = agentDecider.initialState();
  #since = '';
  /** The latest, oldest first. */
  readonly #latest: Transition[] = [];

  take(event: StoredEvent): void {
    const before = this.#state;
    const after = agentDecider.evolve(before, event as unknown as AgentEvent);
    this.#state = after;
    if (after === null) return;
    if (after.status !== before?.status) this.#since = event.at;
    // A sleep that gets deeper is the same sleep.
    else if (!beginsTransition(event.type) || after.status === 'sleeping') return;
    this.#latest.push({ event, before });
    if (this.#latest.length > KEPT) this.#latest.shift();
  }

  get status(): string {
    return this.#state?.status ?? '';
  }

  /** When the agent came to its status. */
  get since(): string {
    return this.#since;
  }

  /** What brought the status about. */
  get last(): StoredEvent | null {
    return this.#latest.at(-1)?.event ?? null;
  }

  byId(id: string): StoredEvent | null {
    return this.#latest.find(({ event }) => event.id === id)?.event ?? null;
  }

  /** The transition before this one: by the rules it could follow from there alone. */
  before(event: StoredEvent): StoredEvent | null {
    return this.#latest.findLast((other) => other.event.revision < event.revision)?.event ?? null;
  }

  /** The seconds without use after which the agent was to sleep when the transition began. */
  idleSecondsAt({ id }: StoredEvent): number {
    return this.#latest.find(({ event }) => event.id === id)?.before?.settings.idle_ttl_seconds ?? 0;
  }
}
