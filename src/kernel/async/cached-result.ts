/**
 * Serves one result to all callers. It reads one result at a time and caches it for some time, so that the cost of reading does not depend
 * on the number of callers.
 */
export class CachedResult<T> {
  private cached: Promise<T> | null = null;
  /** The time, by `performance.now()`, at which the result becomes too old; infinite until it has arrived. */
  private until = 0;

  constructor(
    private readonly read: () => Promise<T>,
    private readonly maxAgeMs: number,
  ) {}

  /** Returns the result that is being read, or that was read at most `maxAgeMs` ago. A failure is not cached. */
  get(): Promise<T> {
    if (this.cached === null || performance.now() >= this.until) {
      const answer = this.read();
      this.cached = answer;
      this.until = Infinity;
      answer.then(
        () => (this.until = performance.now() + this.maxAgeMs),
        () => (this.cached = null),
      );
    }
    return this.cached;
  }
}
