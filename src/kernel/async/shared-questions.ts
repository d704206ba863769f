/** Asks for many keys by one question: callers that ask while a question is under way share the next one. */
export class SharedQuestions<Key, Answer> {
  private readonly asked = new Set<Key>();
  private next: Promise<ReadonlyMap<Key, Answer>> | null = null;
  private last: Promise<unknown> = Promise.resolve();

  constructor(private readonly ask: (keys: Key[]) => Promise<ReadonlyMap<Key, Answer>>) {}

  /** Returns the answer for the key, of a question that begins after this call; undefined if it holds none. Throws what the question throws. */
  async answerFor(key: Key): Promise<Answer | undefined> {
    this.asked.add(key);
    this.next ??= this.last.then(() => this.begin());
    return (await this.next).get(key);
  }

  private begin(): Promise<ReadonlyMap<Key, Answer>> {
    const keys = [...this.asked];
    this.asked.clear();
    this.next = null;
    const answers = this.ask(keys);
    this.last = answers.catch(() => undefined);
    return answers;
  }
}
