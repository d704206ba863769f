import { agentEvents, deletionOf, evolveAgent, type AgentEvent, type AgentState } from '../features/agents/index.ts';
import { computerDeletionOf, computerEvents, evolveComputer, type ComputerEvent, type ComputerState } from '../features/computers/index.ts';
import type { JsonObject } from '../eventsourcing/event-store/event-definition.ts';
import type { StoredEvent } from '../eventsourcing/event-store/event-store.ts';
import { kindOf, type SandboxKind } from '../sandboxes/index.ts';

/** The end of the sandboxes of one kind, as recorded in their streams. */
export interface SandboxEnd {
  /** The type of the event that requests the deletion, and that of the last event of the stream. */
  requested: string;
  deleted: string;
  /** Returns the events that request the deletion of the sandbox with these events, and its account; null if there is no such sandbox. */
  deletionOf(events: readonly StoredEvent[], now: Date): { accountId: string; events: { type: string; data: JsonObject }[] } | null;
}

const ends: { readonly [kind in SandboxKind]: SandboxEnd } = {
  agent: {
    requested: agentEvents.AgentDeletionRequested.type,
    deleted: agentEvents.AgentDeleted.type,
    deletionOf(events, now) {
      const agent = events.reduce<AgentState>((state, event) => evolveAgent(state, event as unknown as AgentEvent), null);
      return agent === null ? null : { accountId: agent.accountId, events: deletionOf(agent, now) };
    },
  },
  computer: {
    requested: computerEvents.ComputerDeletionRequested.type,
    deleted: computerEvents.ComputerDeleted.type,
    deletionOf(events, now) {
      const computer = events.reduce<ComputerState>((state, event) => evolveComputer(state, event as unknown as ComputerEvent), null);
      return computer === null ? null : { accountId: computer.accountId, events: computerDeletionOf(computer, now) };
    },
  },
};

/** The kinds of sandboxes, which are the categories of their streams, and the types of the events that end them. */
export const endings = {
  categories: Object.keys(ends),
  types: Object.values(ends).map(({ deleted }) => deleted),
};

/** Returns how the sandbox with the id is deleted. */
export function endOf(sandboxId: string): SandboxEnd {
  return ends[kindOf(sandboxId)];
}
