import { Query } from '@nestjs/cqrs';

import type { Position } from '../../eventsourcing/event-store/event-store.ts';
import type { EventSelection, HistoryItem } from './entries/history-item.ts';

/** The event after which a list starts: its revision (-1 starts at the first event) or its position in the log. */
export type HistoryCursor = number | Position;

export interface HistoryPage {
  items: HistoryItem[];
  /** The last revision that was read if more may follow, else null. */
  next: number | null;
}

/**
 * Lists the agent's events, oldest first, even if the agent is deleted; a page ends early when its items reach 1 MiB. Throws
 * `agent_not_found`.
 */
export class GetHistory extends Query<HistoryPage> {
  constructor(
    readonly accountId: string,
    readonly agentId: string,
    readonly after: HistoryCursor,
    readonly limit: number,
    readonly selection: EventSelection,
  ) {
    super();
  }
}

/**
 * Streams the agent's events after a cursor, and new ones as they happen, until the agent is deleted or the signal aborts. Throws
 * `agent_not_found`.
 */
export class FollowHistory extends Query<AsyncIterable<HistoryItem>> {
  constructor(
    readonly accountId: string,
    readonly agentId: string,
    readonly after: HistoryCursor,
    readonly selection: EventSelection,
    readonly signal: AbortSignal,
  ) {
    super();
  }
}
