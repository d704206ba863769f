/** The most batches that wait while one runs. */
export const WAITING_BATCHES_MAX = 8;

/** Too many batches wait for the computer. */
export class DesktopBusy extends Error {
  readonly code = 'busy';
  readonly retryAfterSeconds = 1;

  constructor() {
    super(`${WAITING_BATCHES_MAX} batches wait for this computer already.`);
    this.name = 'DesktopBusy';
  }
}

/** Runs one batch at a time, in order of arrival. An aborted batch leaves the queue immediately. */
export class BatchQueue {
  private isBusy = false;
  private readonly waiting = new Set<() => void>();

  /** Runs the work when its turn comes. Throws `DesktopBusy`, and the signal's reason if it aborts before that. */
  async run<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    if (this.isBusy) await this.waitForTurn(signal);
    this.isBusy = true;
    try {
      return await work();
    } finally {
      this.release();
    }
  }

  private async waitForTurn(signal: AbortSignal): Promise<void> {
    if (this.waiting.size >= WAITING_BATCHES_MAX) throw new DesktopBusy();
    await new Promise<void>((resolve, reject) => {
      const onAbort = () => {
        this.waiting.delete(onTurn);
        reject(signal.reason as Error);
      };
      const onTurn = () => {
        signal.removeEventListener('abort', onAbort);
        resolve();
      };
      this.waiting.add(onTurn);
      signal.addEventListener('abort', onAbort, { once: true });
    });
  }

  /** The turn is passed directly to the next batch, so that no new one overtakes it. */
  private release(): void {
    const [next] = this.waiting;
    if (next === undefined) {
      this.isBusy = false;
      return;
    }
    this.waiting.delete(next);
    next();
  }
}
