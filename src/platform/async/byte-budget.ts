interface Waiter {
  bytes: number;
  start(): void;
}

interface AccountLine {
  used: number;
  waiting: Waiter[];
}

export interface ByteLimits {
  /** Bytes that may be in use at once. */
  limit: number;
  /** Of those, how many may be one account's. */
  perAccount: number;
}

/**
 * Bounds the bytes that work holds in memory at once. Room goes to accounts in turn, and within an account to whoever came first. A wish
 * for more than an account may have counts as all that it may have, so that everything has its turn. How much waits is for callers to bound.
 */
export class ByteBudget {
  /** Those whose turn comes first stand first. */
  private readonly accounts = new Map<string, AccountLine>();
  private used = 0;

  constructor(private readonly limits: ByteLimits) {}

  get inUse(): number {
    return this.used;
  }

  /** Resolves as soon as there is room, to how the room is given back (idempotent). Rejects with the signal's reason where that aborts before. */
  async take(account: string, bytes: number, signal: AbortSignal): Promise<() => void> {
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
        // Nobody overtakes what needs more room than there is, or it would wait for ever.
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
