import { Query } from '@nestjs/cqrs';

import type { EventSelection } from '../../history/index.ts';
import type { EventClass, Position } from '../../../eventsourcing/event-store/event-store.ts';
import type { BrowsedEventDto } from './events.dto.ts';

export interface EventPage {
  items: BrowsedEventDto[];
  /** The position after which the next page begins; null if the whole log was searched. */
  next: Position | null;
}

/** Reads the log by position, for the events of all accounts. */
export class BrowseEvents extends Query<EventPage> {
  constructor(
    readonly selection: EventSelection,
    readonly stream: string | null,
    readonly eventClass: EventClass,
    readonly after: Position | null,
    readonly limit: number,
  ) {
    super();
  }
}
