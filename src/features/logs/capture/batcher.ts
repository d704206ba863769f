/*
 * Collects the items of a source into batches, by number, size and time.
 *
 * It owns at most one batch and the items that were left out since the last one. It does not own the source, or what a batch is for.
 *
 * Invariants:
 * B1. Memory is bounded: the source waits while a full batch is not dequeued.
 * B2. Every item is in a batch, in order, or is counted in an item that reports how many were left out at that place.
 * B3. An item waits for at most `maxWaitMs`. With `alignToMs` the batches of all batchers become due at the same moments.
 * B4. Items that are left out never wait for the reader, and give way to other work every SKIPPED_BEFORE_YIELD items.
 * B5. An error of the source reaches the reader after all items before it. A reader that leaves ends the source at its next item.
 */

import { setImmediate as yieldToEventLoop } from 'node:timers/promises';

/** B4 */
const SKIPPED_BEFORE_YIELD = 1_000;

export interface BatchLimits<Item> {
  maxItems: number;
  maxBytes: number;
  /** B3: the longest time that an item waits for others, in ms. */
  maxWaitMs: number;
  /** B3: if given, batches become due at multiples of this time, in ms, and no later than `maxWaitMs`. */
  alignToMs?: number;
  bytesOf(item: Item): number;
  /** Returns a promise for which the source has to wait before more of it is read, or null. */
  pace?(item: Item): Promise<void> | null;
  /**
   * B2: `out` decides which items are left out although the batches could hold them. `told` makes the item that reports their number, in the place
   * of the last one.
   */
  skipping?: { skips(item: Item): boolean; summarize(count: number, last: Item): Item };
}

/** Collects the items of a source into batches, by number, size and time. */
export class Batcher<Item> {
  private items: Item[] = [];
  private bytes = 0;
  private since = 0;
  private ended = false;
  private hasReaderLeft = false;
  /** The value is true if the next item has no room in the batch. */
  private isClosed = false;
  private error: unknown = null;
  private skipped: { count: number; last: Item } | null = null;
  private wakeReader: () => void = () => {};
  private wakeSource: () => void = () => {};

  constructor(private readonly limits: BatchLimits<Item>) {}

  /** Reads the whole source. Resolves at its end. B5: `batches` throws an error of the source after all items before it. */
  async fill(source: AsyncIterable<Item>): Promise<void> {
    try {
      for await (const item of source) {
        const pause = this.limits.pace?.(item) ?? null;
        if (pause !== null) await pause;
        if (this.hasReaderLeft) return;
        if (this.limits.skipping?.skips(item) === true) {
          await this.skip(item);
          if (this.hasReaderLeft) return;
          continue;
        }
        while (!this.hasRoomFor(item) && !this.hasReaderLeft) await this.roomLater();
        if (this.hasReaderLeft) return;
        this.addSummary();
        this.add(item);
        if (this.items.length === 1 || this.isFull()) this.wakeReader();
      }
    } catch (error) {
      this.error = error;
    } finally {
      this.ended = true;
      this.wakeReader();
    }
  }

  /** Yields the batches. B5: a reader that leaves the loop ends `fill` at its next item. */
  async *batches(): AsyncGenerator<Item[]> {
    try {
      while (true) {
        await this.waitUntilDue();
        if (this.hasSome()) yield this.dequeue();
        else if (this.ended) {
          if (this.error !== null) throw this.error;
          return;
        }
      }
    } finally {
      this.hasReaderLeft = true;
      this.wakeSource();
    }
  }

  /** B4: counts an item that is left out. */
  private async skip(item: Item): Promise<void> {
    if (!this.hasSome()) this.since = Date.now();
    const isFirst = this.skipped === null;
    this.skipped = { count: (this.skipped?.count ?? 0) + 1, last: item };
    if (isFirst) this.wakeReader();
    if (this.skipped.count % SKIPPED_BEFORE_YIELD === 0) await yieldToEventLoop();
  }

  /** Has the batch be taken as it is, and resolves when it was. */
  private roomLater(): Promise<void> {
    this.isClosed = true;
    this.wakeReader();
    return new Promise((resolve) => (this.wakeSource = resolve));
  }

  private addSummary(): void {
    const told = this.skipped;
    this.skipped = null;
    if (told !== null && this.limits.skipping !== undefined) this.add(this.limits.skipping.summarize(told.count, told.last));
  }

  private add(item: Item): void {
    if (this.items.length === 0) this.since = Date.now();
    this.items.push(item);
    this.bytes += this.limits.bytesOf(item);
  }

  private hasSome(): boolean {
    return this.items.length > 0 || this.skipped !== null;
  }

  private dequeue(): Item[] {
    this.addSummary();
    const batch = this.items;
    this.items = [];
    this.bytes = 0;
    this.isClosed = false;
    this.wakeSource();
    return batch;
  }

  /** Returns the time at which the oldest item has waited long enough. */
  private dueAt(): number {
    const { maxWaitMs, alignToMs } = this.limits;
    const latest = this.since + maxWaitMs;
    return alignToMs === undefined ? latest : Math.floor(latest / alignToMs) * alignToMs;
  }

  /** Returns whether the item may join the batch. One that is larger than a batch is a batch of its own. */
  private hasRoomFor(item: Item): boolean {
    const isFirst = this.items.length === 0;
    return isFirst || (!this.isFull() && this.bytes + this.limits.bytesOf(item) <= this.limits.maxBytes);
  }

  private isFull(): boolean {
    return this.isClosed || this.items.length >= this.limits.maxItems || this.bytes >= this.limits.maxBytes;
  }

  /** Resolves when there is a batch to take: full, old enough, or the last one. */
  private async waitUntilDue(): Promise<void> {
    while (!this.ended && !this.isFull()) {
      const waitMs = !this.hasSome() ? null : this.dueAt() - Date.now();
      if (waitMs !== null && waitMs <= 0) return;
      await new Promise<void>((resolve) => {
        const timer = waitMs === null ? undefined : setTimeout(resolve, waitMs);
        this.wakeReader = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }
}
