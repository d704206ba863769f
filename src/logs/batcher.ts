export interface BatchLimits<Item> {
  maxItems: number;
  maxBytes: number;
  /** How long an item may wait for others, ms. */
  maxWaitMs: number;
  bytesOf(item: Item): number;
}

/** Gathers what a source gives into batches, by number, size and time; the source waits while a full batch is not taken. */
export class Batcher<Item> {
  #items: Item[] = [];
  #bytes = 0;
  #since = 0;
  #ended = false;
  #left = false;
  #error: unknown = null;
  #wakeReader: () => void = () => {};
  #wakeSource: () => void = () => {};

  constructor(private readonly limits: BatchLimits<Item>) {}

  /** Takes in the whole source. Resolves at its end; its error comes out of `batches` after all that came before it. */
  async fill(source: AsyncIterable<Item>): Promise<void> {
    try {
      for await (const item of source) {
        while (this.#full() && !this.#left) await new Promise<void>((resolve) => (this.#wakeSource = resolve));
        if (this.#left) return;
        if (this.#items.length === 0) this.#since = Date.now();
        this.#items.push(item);
        this.#bytes += this.limits.bytesOf(item);
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
        if (this.#items.length > 0) yield this.#take();
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

  #take(): Item[] {
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
      const waitMs = this.#items.length === 0 ? null : this.#since + this.limits.maxWaitMs - Date.now();
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
