import { Query, QueryHandler, type IQueryHandler } from '@nestjs/cqrs';

import { agentDecider, agentNotFound, type Agent } from '../agents/index.ts';
import { Aggregates, type Loaded } from '../platform/event-store/aggregates.ts';
import { EventCatalogue } from '../platform/event-store/catalogue.ts';
import { EventStore, type Position, type StoredEvent } from '../platform/event-store/event-store.ts';
import { EventWaits } from '../platform/event-store/event-waits.ts';
import { historyItem, isSelected, selectsAll, type EventSelection, type HistoryItem } from './history-item.ts';

/** The event after which a list begins, given by its revision (-1 begins at the first event) or its position in the log. */
export type Place = number | Position;

export interface HistoryPage {
  items: HistoryItem[];
  /** The last revision that was read, if more may follow, else null. */
  next: number | null;
}

/** Lists the agent's events, oldest first, even if the agent is deleted. Throws `agent_not_found`. */
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

/** The largest number of events that are read for one page, if filters or a position select from them. */
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

/**
 * Streams the agent's events after a place, and new ones as they happen, until the agent is deleted or the signal aborts. Throws
 * `agent_not_found`.
 */
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

/** The time in milliseconds after which a follower that was not notified reads the stream anyway. */
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

  /** Yields the items up to the revision `last`, which no event follows. */
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
      // The wait ended early without a notification: the service is stopping.
      if (heard === null && performance.now() - waitedSince < LOOK_EVERY_MS) return;
    }
  }
}

/** Returns the account's agent, even if it is deleted. Throws `agent_not_found`. */
export async function ownOrGone(aggregates: Aggregates, agentId: string, accountId: string): Promise<Loaded<Agent>> {
  const loaded = await aggregates.load(`agent-${agentId}`, agentDecider);
  if (loaded.state?.accountId !== accountId) throw agentNotFound();
  return { ...loaded, state: loaded.state };
}

function isAfter(event: StoredEvent, after: Place): boolean {
  return typeof after === 'number' || event.position > after;
}
