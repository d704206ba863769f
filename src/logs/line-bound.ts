import { Injectable, Logger } from '@nestjs/common';

import { EventStore, idOf, type StoredEvent } from '../platform/event-store/event-store.ts';
import { LogRetention } from './log-entries.projection.ts';
import type { LogEvent } from './log.events.ts';

/** The lines of an agent's output that are kept, as far as they are not too old (contract 10). */
export const KEPT_LINES = 100_000;
/** How many lines more there may be: the oldest are removed each time that so many were added. */
const SLACK_LINES = 1_000;

/** Keeps an agent's output to its number of lines. Each event says how many lines there were up to it, so none but a few are opened. */
@Injectable()
export class LineBound {
  private readonly logger = new Logger(LineBound.name);

  constructor(
    private readonly events: EventStore,
    private readonly entries: LogRetention,
  ) {}

  /**
   * Removes the oldest events and lines where it is time to, after an append that brought the number of the stream's lines from `before` to
   * `total`. Never throws: what fails is done when the next thousand lines are there.
   */
  async hold(stream: string, last: number, before: number, total: number): Promise<void> {
    if (total <= KEPT_LINES || Math.floor(before / SLACK_LINES) === Math.floor(total / SLACK_LINES)) return;
    try {
      const first = await firstBeyond(this.events, stream, last, total - KEPT_LINES);
      if (first === null) return;
      await this.events.truncateStream(stream, first.revision);
      await this.entries.forgetLines(idOf(stream), first.position);
    } catch (error) {
      this.logger.warn(
        `The oldest lines of ${stream} could not be removed; this is tried again ${SLACK_LINES} lines later: ${String(error)}`,
      );
    }
  }
}

/** The first event with which the stream's lines come to more than so many; null where that is the first of all. */
async function firstBeyond(store: EventStore, stream: string, last: number, lines: number): Promise<StoredEvent | null> {
  const oldest = await eventFrom(store, stream, 0);
  if (oldest === null || totalOf(oldest) > lines) return null;
  let low = oldest.revision + 1;
  let high = last;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const event = await eventFrom(store, stream, middle);
    if (event !== null && totalOf(event) <= lines) low = event.revision + 1;
    else high = middle;
  }
  return eventFrom(store, stream, low);
}

/** At the revision, or the next one that is kept. */
async function eventFrom(store: EventStore, stream: string, revision: number): Promise<StoredEvent | null> {
  for await (const event of store.readStream(stream, { from: revision, limit: 1 })) return event;
  return null;
}

/** Earlier releases did not count: what they wrote goes first. */
export function totalOf(event: StoredEvent): number {
  return (event as unknown as LogEvent).data.total ?? 0;
}
