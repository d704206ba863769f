import { Query } from '@nestjs/cqrs';

import type { AuditPage, EventSelection, HistoryItem } from '../../history/index.ts';
import type { Position } from '../../../eventsourcing/event-store/event-store.ts';

/** Lists the events about the computer in the order of the log, even if it is deleted. Throws `computer_not_found`. */
export class GetComputerHistory extends Query<AuditPage> {
  constructor(
    readonly accountId: string,
    readonly computerId: string,
    /** The position of the last event of the page before; null begins at the first event. */
    readonly after: Position | null,
    readonly limit: number,
    readonly selection: EventSelection,
  ) {
    super();
  }
}

/** Streams the events after a position, and new ones as they happen, until the computer is deleted or the signal aborts. */
export class FollowComputerHistory extends Query<AsyncIterable<HistoryItem>> {
  constructor(
    readonly accountId: string,
    readonly computerId: string,
    readonly after: Position | null,
    readonly selection: EventSelection,
    readonly signal: AbortSignal,
  ) {
    super();
  }
}
