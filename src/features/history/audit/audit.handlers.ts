import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';

import { PageBytes } from '../../../kernel/limits/page-bytes.ts';
import { EventCatalogue } from '../../../eventsourcing/event-store/event-catalogue.ts';
import { type AccountCursor, type AuditEvent, AuditEntries } from './audit-entries.ts';
import { historyItem, type AuditItem } from '../entries/history-item.ts';
import { type AuditPage, ExportAudit, FindStaleCursors, ListAudit } from './audit.queries.ts';

@QueryHandler(ListAudit)
export class ListAuditHandler implements IQueryHandler<ListAudit> {
  constructor(
    private readonly entries: AuditEntries,
    private readonly catalogue: EventCatalogue,
  ) {}

  async execute({ selection, after, limit }: ListAudit): Promise<AuditPage> {
    const items: AuditItem[] = [];
    const bytes = new PageBytes();
    for await (const event of this.entries.list(selection, after, limit + 1)) {
      const item = auditItem(event, this.catalogue);
      if (items.length === limit || !bytes.fits(item)) return { items, next: items.at(-1)?.position ?? null };
      items.push(item);
    }
    return { items, next: null };
  }
}

/** The number of items that are read in one query. */
const ITEMS_PER_READ = 200;

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
    for (let left = limit; left > 0; left -= ITEMS_PER_READ) {
      const wanted = Math.min(left, ITEMS_PER_READ);
      let count = 0;
      for await (const event of this.entries.list(selection, position, wanted)) {
        yield auditItem(event, this.catalogue);
        position = event.position;
        count += 1;
      }
      if (count < wanted) return;
    }
  }
}

@QueryHandler(FindStaleCursors)
export class FindStaleCursorsHandler implements IQueryHandler<FindStaleCursors<AccountCursor>> {
  constructor(private readonly entries: AuditEntries) {}

  execute({ cursors }: FindStaleCursors<AccountCursor>): Promise<AccountCursor[]> {
    return this.entries.findStale(cursors);
  }
}

function auditItem(event: AuditEvent, catalogue: EventCatalogue): AuditItem {
  const { agentId: agent_id, computerId: computer_id, stream, metadata } = event;
  return Object.assign(historyItem(event, catalogue), { account_id: metadata.account_id, agent_id, computer_id, stream });
}
