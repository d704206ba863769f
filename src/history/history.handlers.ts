import { Query, QueryHandler, type IQueryHandler } from '@nestjs/cqrs';

import { agentDecider, agentNotFound, type Agent } from '../agents/index.ts';
import { Aggregates, type Loaded } from '../platform/event-store/aggregates.ts';
import { EventCatalogue } from '../platform/event-store/catalogue.ts';
import { EventStore, type Position, type StoredEvent } from '../platform/event-store/event-store.ts';
import { EventWaits } from '../platform/event-store/event-waits.ts';
import { historyItem, isSelected, selectsAll, type EventSelection, type HistoryItem } from './history-item.ts';

/** The last event that is not wanted: its revision (-1: all are wanted), or its position in the log. */
export type Place = number | Position;

export interface HistoryPage {
  items: HistoryItem[];
  /** The last revision that was looked at where more may follow, else null. */
  next: number | null;
}

/** The agent's events, oldest first; also of an agent that is deleted. Throws `agent_not_found`. */
export class GetHistory extends Query<HistoryPage> {
  constructor(
    readonly accountId: string,
    readonly agentId: string,
    readonly after: Place,
    readonly limit: number,
    readonly selection: EventSelection,
  ) {
    super();
  }
}

/** Events that are looked through for one page where only some are asked for. */
const SCAN_MAX = 10_000;

@QueryHandler(GetHistory)
export class GetHistoryHandler implements IQueryHandler<GetHistory> {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly store: EventStore,
    private readonly catalogue: EventCatalogue,
  ) {}

  async execute({ accountId, agentId, after, limit, selection }: GetHistory): Promise<HistoryPage> {
    await ownOrGone(this.aggregates, agentId, accountId);
    const first = typeof after === 'number' ? after + 1 : 0;
    const scanned = typeof after === 'number' && selectsAll(selection) ? limit + 1 : SCAN_MAX;
    const items: HistoryItem[] = [];
    let seen = first - 1;
    for await (const event of this.store.readStream(`agent-${agentId}`, { from: first, limit: scanned })) {
      if (items.length === limit) return { items, next: seen };
      if (isAfter(event, after) && isSelected(selection, event)) items.push(historyItem(event, this.catalogue));
      seen = event.revision;
    }
    return { items, next: seen - first + 1 === scanned ? seen : null };
  }
}

/** The agent's events after a place, and those that come, until the agent is gone or the signal aborts. Throws `agent_not_found`. */
export class FollowHistory extends Query<AsyncIterable<HistoryItem>> {
  constructor(
    readonly accountId: string,
    readonly agentId: string,
    readonly after: Place,
    readonly selection: EventSelection,
    readonly signal: AbortSignal,
  ) {
    super();
  }
}

/** How long (ms) a follower that hears nothing waits before it looks by itself. */
const LOOK_EVERY_MS = 60_000;

@QueryHandler(FollowHistory)
export class FollowHistoryHandler implements IQueryHandler<FollowHistory> {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly store: EventStore,
    private readonly catalogue: EventCatalogue,
    private readonly waits: EventWaits,
  ) {}

  async execute(follow: FollowHistory): Promise<AsyncIterable<HistoryItem>> {
    const { state, revision } = await ownOrGone(this.aggregates, follow.agentId, follow.accountId);
    return this.#items(follow, state.status === 'deleted' ? revision : Infinity);
  }

  /** `last`: the revision that no event follows. */
  async *#items({ agentId, after, selection, signal }: FollowHistory, last: number): AsyncGenerator<HistoryItem> {
    const stream = `agent-${agentId}`;
    using watch = this.waits.watch(stream);
    let revision = typeof after === 'number' ? after : -1;
    for (; revision < last && !signal.aborted;) {
      for await (const event of this.store.readStream(stream, { from: revision + 1 })) {
        revision = event.revision;
        if (isAfter(event, after) && isSelected(selection, event)) yield historyItem(event, this.catalogue);
        if (event.type === 'AgentDeleted' || signal.aborted) return;
      }
      const waitedSince = performance.now();
      const heard = await watch.next(LOOK_EVERY_MS, signal);
      // Nothing heard, and the time is not over: the service is stopping.
      if (heard === null && performance.now() - waitedSince < LOOK_EVERY_MS) return;
    }
  }
}

/** The account's agent, also when it is deleted. Throws `agent_not_found`. */
export async function ownOrGone(aggregates: Aggregates, agentId: string, accountId: string): Promise<Loaded<Agent>> {
  const loaded = await aggregates.load(`agent-${agentId}`, agentDecider);
  if (loaded.state?.accountId !== accountId) throw agentNotFound();
  return { ...loaded, state: loaded.state };
}

function isAfter(event: StoredEvent, after: Place): boolean {
  return typeof after === 'number' || event.position > after;
}
