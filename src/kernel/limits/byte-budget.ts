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
    const counted = this.counted(bytes);
    const line = this.lineOf(account);
    await this.turn(account, line, counted, signal);
    return this.releaseOf(account, line, counted);
  }

  /** Does as `reserve` if the bytes are free and nobody waits whom they would serve; otherwise returns null. */
  tryReserve(account: string, bytes: number): (() => void) | null {
    const counted = this.counted(bytes);
    if (this.lacking(account, bytes) !== null || this.hasWaiterFor(account)) return null;
    const line = this.lineOf(account);
    line.used += counted;
    this.used += counted;
    return this.releaseOf(account, line, counted);
  }

  /** Returns whose limit leaves no room for so many more bytes of the account; null if there is room. */
  lacking(account: string, bytes: number): 'account' | 'all' | null {
    const counted = this.counted(bytes);
    if ((this.accounts.get(account)?.used ?? 0) + counted > this.limits.perAccount) return 'account';
    return this.used + counted > this.limits.limit ? 'all' : null;
  }

  /** Returns whether the account waits, or another one that only the limit of all holds up. */
  private hasWaiterFor(account: string): boolean {
    return [...this.accounts].some(([name, { used, waiting }]) => {
      const [first] = waiting;
      return first !== undefined && (name === account || used + first.bytes <= this.limits.perAccount);
    });
  }

  private counted(bytes: number): number {
    return Math.min(bytes, this.limits.perAccount, this.limits.limit);
  }

  private lineOf(account: string): AccountLine {
    const line = this.accounts.get(account) ?? { used: 0, waiting: [] };
    this.accounts.set(account, line);
    return line;
  }

  private releaseOf(account: string, line: AccountLine, counted: number): () => void {
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
