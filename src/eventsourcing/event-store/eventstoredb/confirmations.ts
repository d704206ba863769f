import { EventStoreUnavailable, type Position } from '../event-store.ts';
import type { Recorded } from './envelope.ts';
import type { EventReader } from './reading.ts';

/** The number of records that one read fetches beyond those of the batch, for records of other writers between them. */
const SPARE_READS = 32;

interface PendingRead {
  position: Position;
  resolve(event: Recorded): void;
  reject(error: unknown): void;
}

/**
 * Reads appended events back from the log, because the response to an append contains neither the time nor the first writer. Appends that
 * are acknowledged while a read is in flight share the next one, since their records are close together.
 */
export class Confirmations {
  private waiting: PendingRead[] = [];
  private reading = false;

  constructor(private readonly reader: EventReader) {}

  /** Returns the record at that position. Throws `EventStoreUnavailable`, also if the node that responds does not have it yet. */
  at(position: Position): Promise<Recorded> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ position, resolve, reject });
      if (!this.reading) void this.drain();
    });
  }

  private async drain(): Promise<void> {
    this.reading = true;
    while (this.waiting.length > 0) {
      const batch = this.waiting.sort((a, b) => (a.position < b.position ? -1 : 1));
      this.waiting = [];
      await this.fetch(batch);
    }
    this.reading = false;
  }

  /** Reads from the first record on. Records that the page does not reach are left for the next read. */
  private async fetch(batch: PendingRead[]): Promise<void> {
    const [first] = batch as [PendingRead];
    try {
      const found = await this.reader.from(first.position, batch.length === 1 ? 1 : batch.length + SPARE_READS);
      const records = new Map(found.map((event) => [event.position, event]));
      for (const waiting of batch) {
        const event = records.get(waiting.position);
        if (event) waiting.resolve(event);
        else if (waiting === first) waiting.reject(new EventStoreUnavailable(new Error(`no event found at position ${waiting.position}`)));
        else this.waiting.push(waiting);
      }
    } catch (error) {
      for (const waiting of batch) waiting.reject(error);
    }
  }
}
