import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';

import { historyItem, isSelected } from '../../history/index.ts';
import { EventCatalogue } from '../../../eventsourcing/event-store/event-catalogue.ts';
import { EventStore, START, type StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { PageBytes } from '../../../kernel/limits/page-bytes.ts';
import type { BrowsedEventDto } from './events.dto.ts';
import { BrowseEvents, type EventPage } from './events.queries.ts';

/** The most events that are read to fill one page. */
const SCAN_MAX = 20_000;

@QueryHandler(BrowseEvents)
export class BrowseEventsHandler implements IQueryHandler<BrowseEvents> {
  constructor(
    private readonly store: EventStore,
    private readonly catalogue: EventCatalogue,
  ) {}

  async execute(browse: BrowseEvents): Promise<EventPage> {
    const { selection, limit } = browse;
    const items: BrowsedEventDto[] = [];
    const bytes = new PageBytes();
    let seen = START;
    let scanned = 0;
    for await (const event of this.events(browse)) {
      if (items.length === limit || scanned === SCAN_MAX) return { items, next: seen };
      // Times increase with positions, so no later event can match.
      if (selection.until !== null && event.at >= selection.until) break;
      if (isSelected(selection, event)) {
        const { stream, metadata } = event;
        const item = Object.assign(historyItem(event, this.catalogue), { stream, account_id: metadata.account_id });
        if (!bytes.fits(item)) return { items, next: seen };
        items.push(item);
      }
      seen = event.position;
      scanned += 1;
    }
    return { items, next: null };
  }

  private async *events({ selection, stream, eventClass, after }: BrowseEvents): AsyncGenerator<StoredEvent> {
    if (stream !== null) {
      for await (const event of this.store.readStream(stream)) if (after === null || event.position > after) yield event;
      return;
    }
    const since = selection.since === null ? START : await this.store.before(new Date(selection.since), eventClass);
    const types = selection.types === null ? {} : { types: selection.types };
    const from = after !== null && after > since ? after : since;
    for await (const batch of this.store.readAll(from, { eventClass, ...types })) yield* batch;
  }
}
