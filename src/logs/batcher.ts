import { setImmediate as othersTurn } from 'node:timers/promises';

/** Items that are left out in a row before others have their turn. */
const IN_A_ROW = 1_000;

export interface BatchLimits<Item> {
  maxItems: number;
  maxBytes: number;
  /** How long an item may wait for others, ms. */
  maxWaitMs: number;
  bytesOf(item: Item): number;
  /** What is left out though the batches could hold it, and the item that tells how much that was, in the place of the last such item. */
  leaving?: { out(item: Item): boolean; told(count: number, last: Item): Item };
}

/** Gathers what a source gives into batches, by number, size and time; the source waits while a full batch is not taken. */
export class Batcher<Item> {
  #items: Item[] = [];
  #bytes = 0;
  #since = 0;
  #ended = false;
  #left = false;
  #error: unknown = null;
  #leftOut: { count: number; last: Item } | null = null;
  #wakeReader: () => void = () => {};
  #wakeSource: () => void = () => {};

  constructor(private readonly limits: BatchLimits<Item>) {}

  /** Takes in the whole source. Resolves at its end; its error comes out of `batches` after all that came before it. */
  async fill(source: AsyncIterable<Item>): Promise<void> {
    try {
      for await (const item of source) {
        if (this.limits.leaving?.out(item) === true) {
          await this.#leaveOut(item);
          if (this.#left) return;
          continue;
        }
        while (this.#full() && !this.#left) await new Promise<void>((resolve) => (this.#wakeSource = resolve));
        if (this.#left) return;
        this.#tellLeftOut();
        this.#add(item);
        if (this.#items.length === 1 || this.#full()) this.#wakeReader();
      }
    } catch (error) {
      this.#error = error;
    } finally {
      this.#ended = true;
      this.#wakeReader();
    }
  }

  /** Whoever leaves the loop ends `fill` too, at its next item. */
  async *batches(): AsyncGenerator<Item[]> {
    try {
      while (true) {
        await this.#due();
        if (this.#hasSome()) yield this.#take();
        else if (this.#ended) {
          if (this.#error !== null) throw this.#error;
          return;
        }
      }
    } finally {
      this.#left = true;
      this.#wakeSource();
    }
  }

  /** Never waits for the batches: what is left out comes as fast as it can be read. */
  async #leaveOut(item: Item): Promise<void> {
    if (!this.#hasSome()) this.#since = Date.now();
    const isFirst = this.#leftOut === null;
    this.#leftOut = { count: (this.#leftOut?.count ?? 0) + 1, last: item };
    if (isFirst) this.#wakeReader();
    if (this.#leftOut.count % IN_A_ROW === 0) await othersTurn();
  }

  #tellLeftOut(): void {
    const told = this.#leftOut;
    this.#leftOut = null;
    if (told !== null && this.limits.leaving !== undefined) this.#add(this.limits.leaving.told(told.count, told.last));
  }

  #add(item: Item): void {
    if (this.#items.length === 0) this.#since = Date.now();
    this.#items.push(item);
    this.#bytes += this.limits.bytesOf(item);
  }

  #hasSome(): boolean {
    return this.#items.length > 0 || this.#leftOut !== null;
  }

  #take(): Item[] {
    this.#tellLeftOut();
    const batch = this.#items;
    this.#items = [];
    this.#bytes = 0;
    this.#wakeSource();
    return batch;
  }

  #full(): boolean {
    return this.#items.length >= this.limits.maxItems || this.#bytes >= this.limits.maxBytes;
  }

  /** Resolves when there is a batch to take: full, old enough, or the last one. */
  async #due(): Promise<void> {
    while (!this.#ended && !this.#full()) {
      const waitMs = !this.#hasSome() ? null : this.#since + this.limits.maxWaitMs - Date.now();
      if (waitMs !== null && waitMs <= 0) return;
      await new Promise<void>((resolve) => {
        const timer = waitMs === null ? undefined : setTimeout(resolve, waitMs);
        this.#wakeReader = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }
}
