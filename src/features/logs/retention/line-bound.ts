/*
 * Bounds how many lines of an agent's output are kept.
 *
 * It owns the decision when and where to cut a stream of output. It does not own the age up to which output is kept (`RETENTION`, the store
 * trims by it), or the rows of the read model (`LogRetention` deletes them).
 *
 * Invariants:
 * L1. At least KEPT_LINES_MAX of the latest lines are kept, and at most SLACK_LINES more.
 * L2. Retention costs what it removes: each event holds the number of lines up to it, so that the place of the cut is found by bisection,
 *     and the stream is looked at once every SLACK_LINES lines (decisions/0012).
 * L3. A removal that fails never stops the capture. It is repeated at the next cut.
 */

import { Injectable, Logger } from '@nestjs/common';

import { EventStore, idOf, type StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { LogRetention } from '../entries/log-entries.projection.ts';
import type { LogEvent } from '../output/logs.events.ts';

/** L1: the number of lines of an agent's output that are kept, unless they are too old. */
export const KEPT_LINES_MAX = 100_000;
/** L2: the oldest lines are removed each time this many lines were added. */
const SLACK_LINES = 1_000;

/** The number of characters of a line that count as one of the kept lines, so that long lines don't multiply what is kept. */
const CHARACTERS = 16 * 1024;

/** Returns the number of kept lines as which a line counts. */
export function keptLinesOf(text: string): number {
  return 1 + Math.floor(text.length / CHARACTERS);
}

/** Bounds the number of lines of an agent's output. */
@Injectable()
export class LineBound {
  private readonly logger = new Logger(LineBound.name);

  constructor(
    private readonly events: EventStore,
    private readonly entries: LogRetention,
  ) {}

  /**
   * Removes the oldest events and lines if that is due, after an append that raised the number of the stream's lines from `before` to `total`. L3:
   * it never throws.
   */
  async enforce(stream: string, last: number, before: number, total: number): Promise<void> {
    if (total <= KEPT_LINES_MAX || Math.floor(before / SLACK_LINES) === Math.floor(total / SLACK_LINES)) return;
    try {
      const first = await firstBeyond(this.events, stream, last, total - KEPT_LINES_MAX);
      if (first === null) return;
      await this.events.truncateStream(stream, first.revision);
      await this.entries.deleteLines(idOf(stream), first.position);
    } catch (error) {
      this.logger.warn(
        `The oldest lines of ${stream} could not be removed; this is tried again ${SLACK_LINES} lines later: ${String(error)}`,
      );
    }
  }
}

/** L2: returns the first event up to which the stream has more than `lines` lines; null if that is its oldest event. */
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

/** Returns the event at the revision, or the next one that still exists. */
async function eventFrom(store: EventStore, stream: string, revision: number): Promise<StoredEvent | null> {
  for await (const event of store.readStream(stream, { from: revision, limit: 1 })) return event;
  return null;
}

/** Returns the number of lines up to the event. Events of earlier releases have no number, so they are removed first. */
export function totalOf(event: StoredEvent): number {
  return (event as unknown as LogEvent).data.total ?? 0;
}
