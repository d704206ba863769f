/*
 * Collects the items of a source into batches, by number, size and time.
 *
 * It owns at most one batch and the items that were left out since the last one. It does not own the source, or what a batch is for.
 *
 * Invariants:
 * B1. Memory is bounded: the source waits while a full batch is not dequeued.
 * B2. Every item is in a batch, in order, or is counted in an item that reports how many were left out at that place.
 * B3. An item waits for at most `maxWaitMs`. With `togetherMs` the batches of all batchers become due at the same moments.
 * B4. Items that are left out never wait for the reader, and give way to other work every IN_A_ROW items.
 * B5. An error of the source reaches the reader after all items before it. A reader that leaves ends the source at its next item.
 */

import { setImmediate as othersTurn } from 'node:timers/promises';

/** B4 */
const IN_A_ROW = 1_000;

export interface BatchLimits<Item> {
  maxItems: number;
  maxBytes: number;
  /** B3: the longest time that an item waits for others, in ms. */
  maxWaitMs: number;
  /** B3: if given, batches become due at multiples of this time, in ms, and no later than `maxWaitMs`. */
  togetherMs?: number;
  bytesOf(item: Item): number;
  /** Returns a promise for which the source has to wait before more of it is read, or null. */
  pace?(item: Item): Promise<void> | null;
  /**
   * B2: `out` decides which items are left out although the batches could hold them. `told` makes the item that reports their number, in the place
   * of the last one.
   */
  leaving?: { out(item: Item): boolean; told(count: number, last: Item): Item };
}

/** Collects the items of a source into batches, by number, size and time. */
export class Batcher<Item> {
  private items: Item[] = [];
  private bytes = 0;
  private since = 0;
  private ended = false;
  private left = false;
  /** The value is true if the next item has no room in the batch. */
  private isClosed = false;
  private error: unknown = null;
  private leftOut: { count: number; last: Item } | null = null;
  private wakeReader: () => void = () => {};
  private wakeSource: () => void = () => {};

  constructor(private readonly limits: BatchLimits<Item>) {}

  /** Reads the whole source. Resolves at its end. B5: `batches` throws an error of the source after all items before it. */
  async fill(source: AsyncIterable<Item>): Promise<void> {
    try {
      for await (const item of source) {
        const pause = this.limits.pace?.(item) ?? null;
        if (pause !== null) await pause;
        if (this.left) return;
        if (this.limits.leaving?.out(item) === true) {
          await this.leaveOut(item);
          if (this.left) return;
          continue;
        }
        while (!this.hasRoomFor(item) && !this.left) await this.roomLater();
        if (this.left) return;
        this.tellLeftOut();
        this.add(item);
        if (this.items.length === 1 || this.full()) this.wakeReader();
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
        await this.due();
        if (this.hasSome()) yield this.take();
        else if (this.ended) {
          if (this.error !== null) throw this.error;
          return;
        }
      }
    } finally {
      this.left = true;
      this.wakeSource();
    }
  }

  /** B4: counts an item that is left out. */
  private async leaveOut(item: Item): Promise<void> {
    if (!this.hasSome()) this.since = Date.now();
    const isFirst = this.leftOut === null;
    this.leftOut = { count: (this.leftOut?.count ?? 0) + 1, last: item };
    if (isFirst) this.wakeReader();
    if (this.leftOut.count % IN_A_ROW === 0) await othersTurn();
  }

  /** Has the batch be taken as it is, and resolves when it was. */
  private roomLater(): Promise<void> {
    this.isClosed = true;
    this.wakeReader();
    return new Promise((resolve) => (this.wakeSource = resolve));
  }

  private tellLeftOut(): void {
    const told = this.leftOut;
    this.leftOut = null;
    if (told !== null && this.limits.leaving !== undefined) this.add(this.limits.leaving.told(told.count, told.last));
  }

  private add(item: Item): void {
    if (this.items.length === 0) this.since = Date.now();
    this.items.push(item);
    this.bytes += this.limits.bytesOf(item);
  }

  private hasSome(): boolean {
    return this.items.length > 0 || this.leftOut !== null;
  }

  private take(): Item[] {
    this.tellLeftOut();
    const batch = this.items;
    this.items = [];
    this.bytes = 0;
    this.isClosed = false;
    this.wakeSource();
    return batch;
  }

  /** Returns the time at which the oldest item has waited long enough. */
  private dueAt(): number {
    const { maxWaitMs, togetherMs } = this.limits;
    const latest = this.since + maxWaitMs;
    return togetherMs === undefined ? latest : Math.floor(latest / togetherMs) * togetherMs;
  }

  /** Returns whether the item may join the batch. One that is larger than a batch is a batch of its own. */
  private hasRoomFor(item: Item): boolean {
    const isFirst = this.items.length === 0;
    return isFirst || (!this.full() && this.bytes + this.limits.bytesOf(item) <= this.limits.maxBytes);
  }

  private full(): boolean {
    return this.isClosed || this.items.length >= this.limits.maxItems || this.bytes >= this.limits.maxBytes;
  }

  /** Resolves when there is a batch to take: full, old enough, or the last one. */
  private async due(): Promise<void> {
    while (!this.ended && !this.full()) {
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
