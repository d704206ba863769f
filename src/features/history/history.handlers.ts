import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';

import { Agents } from '../agents/services.ts';
import { EventCatalogue } from '../../eventsourcing/event-store/event-catalogue.ts';
import type { StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import { PageBytes } from '../../kernel/limits/page-bytes.ts';
import { type HistoryItem, historyItem, isSelected, selectsAll } from './entries/history-item.ts';
import { FollowHistory, GetHistory, type HistoryPage, type HistoryCursor } from './history.queries.ts';

/** The most events that are read for one page if filters or a position select from them. */
const SCAN_MAX = 10_000;

@QueryHandler(GetHistory)
export class GetHistoryHandler implements IQueryHandler<GetHistory> {
  constructor(
    private readonly agents: Agents,
    private readonly catalogue: EventCatalogue,
  ) {}

  async execute({ accountId, agentId, after, limit, selection }: GetHistory): Promise<HistoryPage> {
    await this.agents.loadWithDeleted(agentId, accountId);
    const first = typeof after === 'number' ? after + 1 : 0;
    const scanned = typeof after === 'number' && selectsAll(selection) ? limit + 1 : SCAN_MAX;
    const items: HistoryItem[] = [];
    const bytes = new PageBytes();
    let seen = first - 1;
    for await (const event of this.agents.events(agentId, { from: first, limit: scanned })) {
      if (items.length === limit) return { items, next: seen };
      if (isAfter(event, after) && isSelected(selection, event)) {
        const item = historyItem(event, this.catalogue);
        if (!bytes.fits(item)) return { items, next: seen };
        items.push(item);
      }
      seen = event.revision;
    }
    return { items, next: seen - first + 1 === scanned ? seen : null };
  }
}

/** A follower reads the stream after this time even if it was not notified, in ms. */
const POLL_EVERY_MS = 60_000;

@QueryHandler(FollowHistory)
export class FollowHistoryHandler implements IQueryHandler<FollowHistory> {
  constructor(
    private readonly agents: Agents,
    private readonly catalogue: EventCatalogue,
  ) {}

  async execute(follow: FollowHistory): Promise<AsyncIterable<HistoryItem>> {
    const { state, revision } = await this.agents.loadWithDeleted(follow.agentId, follow.accountId);
    return this.items(follow, state.status === 'deleted' ? revision : Infinity);
  }

  /** Yields the items up to the revision `last`, which no event follows. */
  private async *items({ agentId, after, selection, signal }: FollowHistory, last: number): AsyncGenerator<HistoryItem> {
    using watch = this.agents.watch(agentId);
    let revision = typeof after === 'number' ? after : -1;
    for (; revision < last && !signal.aborted;) {
      for await (const event of this.agents.events(agentId, { from: revision + 1 })) {
        revision = event.revision;
        if (isAfter(event, after) && isSelected(selection, event)) yield historyItem(event, this.catalogue);
        if (event.type === 'AgentDeleted' || signal.aborted) return;
      }
      const waitedSince = performance.now();
      const heard = await watch.next(POLL_EVERY_MS, signal);
      // The wait ended without a notification because the service is stopping.
      if (heard === null && performance.now() - waitedSince < POLL_EVERY_MS) return;
    }
  }
}

function isAfter(event: StoredEvent, after: HistoryCursor): boolean {
  return typeof after === 'number' || event.position > after;
}
