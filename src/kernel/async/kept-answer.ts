/**
 * Serves one answer to all who ask. It asks one question at a time, whoever asks and however often, and keeps the answer for some time, so
 * that what the question costs does not depend on the number of callers.
 */
export class KeptAnswer<T> {
  private kept: Promise<T> | null = null;
  /** The time, by `performance.now()`, from which on the answer is too old; it has not come before that. */
  private until = 0;

  constructor(
    private readonly ask: () => Promise<T>,
    private readonly keptMs: number,
  ) {}

  /** Returns the answer to the question that is under way, or that was answered at most `keptMs` ago. A failure is not kept. */
  get(): Promise<T> {
    if (this.kept === null || performance.now() >= this.until) {
      const answer = this.ask();
      this.kept = answer;
      this.until = Infinity;
      answer.then(
        () => (this.until = performance.now() + this.keptMs),
        () => (this.kept = null),
      );
    }
    return this.kept;
  }
}
