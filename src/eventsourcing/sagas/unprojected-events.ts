import { Injectable } from '@nestjs/common';

import { type EventFilter, EventStore, type Position, type StoredEvent } from '../event-store/event-store.ts';
import { Projections } from '../projections/projections.ts';

/** The number of missing events above which they are not read one by one, because the read models will show them sooner. */
const UNPROJECTED_MAX = 10_000;

/** Finds the events of the log that some read model may not show yet. */
@Injectable()
export class UnprojectedEvents {
  constructor(
    private readonly store: EventStore,
    private readonly projections: Projections,
  ) {}

  /** Returns a position that every read model of these events has reached; null if there is no such read model. */
  async oldestCheckpoint({ eventClass }: EventFilter): Promise<Position | null> {
    const names = this.projections.names(eventClass);
    await this.projections.status();
    return names
      .map((name) => this.projections.checkpoint(name))
      .reduce<Position | null>((least, each) => (least !== null && least < each ? least : each), null);
  }

  /** Returns the events after the position, in batches, or null if they are too many to be read one by one. */
  async after(position: Position, filter: EventFilter): Promise<AsyncIterable<StoredEvent[]> | null> {
    const { events } = await this.store.lag(position, filter.eventClass);
    return events < UNPROJECTED_MAX ? this.store.readAll(position, filter) : null;
  }
}
