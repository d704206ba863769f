import { Query } from '@nestjs/cqrs';

import type { Position } from '../../../eventsourcing/event-store/event-store.ts';
import type { AccountCursor, AuditSelection } from './audit-entries.ts';
import type { AuditItem } from '../entries/history-item.ts';

export interface AuditPage {
  items: AuditItem[];
  /** The position of the last item, if more follow, else null. */
  next: Position | null;
}

/** Returns one page of the audit, in the order of the log or the reverse; it ends early when its items reach 1 MiB. */
export class ListAudit extends Query<AuditPage> {
  constructor(
    readonly selection: AuditSelection,
    /** The position of the last item of the page before. */
    readonly after: Position | null,
    readonly limit: number,
  ) {
    super();
  }
}

/** Streams the items after the position as they are read, at most `limit` of them. */
export class ExportAudit extends Query<AsyncIterable<AuditItem>> {
  constructor(
    readonly selection: AuditSelection,
    readonly after: Position | null,
    readonly limit: number,
  ) {
    super();
  }
}

/** Returns the cursors that are behind their account's newest event, in one query. */
export class FindStaleCursors<Of extends AccountCursor> extends Query<Of[]> {
  constructor(readonly cursors: readonly Of[]) {
    super();
  }
}
