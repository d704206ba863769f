interface Waiter {
  bytes: number;
  start(): void;
}

interface AccountLine {
  used: number;
  waiting: Waiter[];
}

export interface ByteLimits {
  /** The most bytes in use at once. */
  limit: number;
  /** The most bytes in use by one account. */
  perAccount: number;
}

/**
 * Limits the bytes that work holds in memory at once. Free bytes go to accounts in turn, and within an account in order of arrival. A
 * request for more than an account's limit counts as that limit, so that every request is granted in the end. Callers limit how many
 * requests wait.
 */
export class ByteBudget {
  /** The accounts, in the order of their turns. */
  private readonly accounts = new Map<string, AccountLine>();
  private used = 0;

  constructor(private readonly limits: ByteLimits) {}

  get inUse(): number {
    return this.used;
  }

  /**
   * Resolves when the bytes are free, with an idempotent function that releases them. Rejects with the signal's reason if it aborts before.
   */
  async reserve(account: string, bytes: number, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    const counted = Math.min(bytes, this.limits.perAccount, this.limits.limit);
    const line = this.accounts.get(account) ?? { used: 0, waiting: [] };
    this.accounts.set(account, line);
    await this.turn(account, line, counted, signal);
    let isTaken = true;
    return () => {
      if (!isTaken) return;
      isTaken = false;
      this.used -= counted;
      line.used -= counted;
      this.forgetIfEmpty(account, line);
      this.startNext();
    };
  }

  private turn(account: string, line: AccountLine, bytes: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        bytes,
        start: () => {
          signal.removeEventListener('abort', giveUp);
          resolve();
        },
      };
      const giveUp = () => {
        line.waiting.splice(line.waiting.indexOf(waiter), 1);
        this.forgetIfEmpty(account, line);
        reject(signal.reason as Error);
        this.startNext();
      };
      signal.addEventListener('abort', giveUp, { once: true });
      line.waiting.push(waiter);
      this.startNext();
    });
  }

  private startNext(): void {
    for (let granted = true; granted;) {
      granted = false;
      for (const [account, line] of this.accounts) {
        const first = line.waiting[0];
        if (first === undefined || line.used + first.bytes > this.limits.perAccount) continue;
        // No account is served before the first one whose request does not fit, or that request could wait for ever.
        if (this.used + first.bytes > this.limits.limit) return;
        line.waiting.shift();
        line.used += first.bytes;
        this.used += first.bytes;
        this.accounts.delete(account);
        this.accounts.set(account, line);
        first.start();
        granted = true;
        break;
      }
    }
  }

  private forgetIfEmpty(account: string, line: AccountLine): void {
    if (line.used === 0 && line.waiting.length === 0 && this.accounts.get(account) === line) this.accounts.delete(account);
  }
}
