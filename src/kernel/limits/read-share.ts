import { sharesOf } from './account-counter.ts';
import { FairQueue } from './fair-queue.ts';
import { TokenBucket, TokenBuckets } from './token-bucket.ts';

/** The interval at which waiting readers get what has become free, in ms. */
const TICK_MS = 50;

export interface ReadRate {
  /** The units that are read in a second, of all accounts. */
  perSecond: number;
  /** The part of them that is read of one account: a quarter by default. */
  accountPart?: number;
  /** The number of units that a reader gets at a time, which may overdraw what is free. */
  atATime: number;
}

interface Waiter {
  account: string;
  goOn(): void;
}

/**
 * Bounds how fast this process reads what agents print: a source that prints faster is not read for a while. Accounts take turns, and within
 * an account its readers, so that floods hold up nobody else's output.
 */
export class ReadShare {
  private readonly whole: TokenBucket;
  private readonly accounts: TokenBuckets;
  private readonly readers = new FairQueue<Waiter>();
  /** The accounts whose readers wait for the account's own rate. */
  private readonly paused = new Set<string>();
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly rate: ReadRate) {
    const { all, account } = sharesOf(rate.perSecond, { account: rate.accountPart });
    this.whole = new TokenBucket({ perSecond: all, savedMax: all });
    this.accounts = new TokenBuckets({ perSecond: account, savedMax: account });
  }

  /**
   * Returns the function with which a reader counts what it has read. That returns null if the reader may go on, or a promise that resolves
   * when it may, or when the signal aborts.
   */
  reader(account: string, signal: AbortSignal): (cost: number) => Promise<void> | null {
    let left = 0;
    return (cost) => {
      left -= cost;
      if (left > 0) return null;
      const units = this.rate.atATime - left;
      left += units;
      return this.acquire(account, units, signal);
    };
  }

  private acquire(account: string, units: number, signal: AbortSignal): Promise<void> | null {
    const now = performance.now();
    if (this.readers.sizeOf(account) === 0 && this.accounts.left(account, now) > 0 && this.whole.left(now) > 0) {
      this.spend(account, units);
      return null;
    }
    return new Promise((resolve) => {
      const leave = () => {
        this.readers.remove(place);
        resolve();
      };
      const goOn = () => {
        signal.removeEventListener('abort', leave);
        this.spend(account, units);
        resolve();
      };
      const place = this.readers.enqueue(account, { account, goOn });
      if (signal.aborted) leave();
      else signal.addEventListener('abort', leave, { once: true });
      this.timer ??= setTimeout(() => this.give(), TICK_MS);
    });
  }

  /** Lets readers go on, an account after the other, as far as the rates allow. */
  private give(): void {
    this.timer = undefined;
    const now = performance.now();
    for (const account of this.paused) if (this.accounts.left(account, now) > 0 || this.readers.sizeOf(account) === 0) this.resume(account);
    for (let next = this.readers.peek(); next !== undefined && this.whole.left(now) > 0; next = this.readers.peek())
      if (this.accounts.left(next.account, now) > 0) this.readers.dequeue()?.goOn();
      else this.pause(next.account);
    if (this.readers.size > 0) this.timer = setTimeout(() => this.give(), TICK_MS);
  }

  private pause(account: string): void {
    this.readers.pause(account);
    this.paused.add(account);
  }

  private resume(account: string): void {
    this.readers.resume(account);
    this.paused.delete(account);
  }

  private spend(account: string, units: number): void {
    const now = performance.now();
    this.accounts.spend(account, units, now);
    this.whole.spend(units, now);
  }
}
