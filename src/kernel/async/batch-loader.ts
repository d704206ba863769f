/** Loads values for many keys in batches: callers that ask while a batch is being loaded share the next one. */
export class BatchLoader<Key, Answer> {
  private readonly pending = new Set<Key>();
  private next: Promise<ReadonlyMap<Key, Answer>> | null = null;
  private last: Promise<unknown> = Promise.resolve();

  constructor(private readonly loadBatch: (keys: Key[]) => Promise<ReadonlyMap<Key, Answer>>) {}

  /** Returns the value for the key, from a batch that begins after this call; undefined if there is none. Throws the error of the batch. */
  async load(key: Key): Promise<Answer | undefined> {
    this.pending.add(key);
    this.next ??= this.last.then(() => this.begin());
    return (await this.next).get(key);
  }

  private begin(): Promise<ReadonlyMap<Key, Answer>> {
    const keys = [...this.pending];
    this.pending.clear();
    this.next = null;
    const answers = this.loadBatch(keys);
    this.last = answers.catch(() => undefined);
    return answers;
  }
}
