import { Query, QueryHandler, type IQueryHandler } from '@nestjs/cqrs';

import { EventCatalogue } from '../../platform/event-store/catalogue.ts';
import type { Position } from '../../platform/event-store/event-store.ts';
import { AuditEntries, type AuditedEvent, type AuditSelection } from './audit-entries.ts';
import { historyItem, type AuditItem } from '../entries/history-item.ts';

/** Returns one page of the audit, in the order of the log or the reverse. */
export class ListAudit extends Query<AuditItem[]> {
  constructor(
    readonly selection: AuditSelection,
    /** The position of the last item of the page before. */
    readonly after: Position | null,
    readonly limit: number,
  ) {
    super();
  }
}

@QueryHandler(ListAudit)
export class ListAuditHandler implements IQueryHandler<ListAudit> {
  constructor(
    private readonly entries: AuditEntries,
    private readonly catalogue: EventCatalogue,
  ) {}

  async execute({ selection, after, limit }: ListAudit): Promise<AuditItem[]> {
    const events = await this.entries.list(selection, after, limit);
    return events.map((event) => auditItem(event, this.catalogue));
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

/** The number of items that are held in memory at once. */
const AT_ONCE = 200;

@QueryHandler(ExportAudit)
export class ExportAuditHandler implements IQueryHandler<ExportAudit> {
  constructor(
    private readonly entries: AuditEntries,
    private readonly catalogue: EventCatalogue,
  ) {}

  async execute(query: ExportAudit): Promise<AsyncIterable<AuditItem>> {
    return this.items(query);
  }

  private async *items({ selection, after, limit }: ExportAudit): AsyncGenerator<AuditItem> {
    let position = after;
    for (let left = limit; left > 0; left -= AT_ONCE) {
      const wanted = Math.min(left, AT_ONCE);
      const events = await this.entries.list(selection, position, wanted);
      for (const event of events) yield auditItem(event, this.catalogue);
      position = events.at(-1)?.position ?? position;
      if (events.length < wanted) return;
    }
  }
}

function auditItem(event: AuditedEvent, catalogue: EventCatalogue): AuditItem {
  const { agentId: agent_id, stream, metadata } = event;
  return Object.assign(historyItem(event, catalogue), { account_id: metadata.account_id, agent_id, stream });
}
