import { FairQueue, type Place } from './fair-queue.ts';

/** The interval at which waiting readers get what has become free, in ms. */
const TICK_MS = 50;
/** The number of accounts whose allowance is remembered although it may be whole again. */
const REMEMBERED_MAX = 1_000;

export interface ReadRates {
  /** The units that are read in a second: of all accounts, and of one. */
  perSecond: number;
  perSecondOfAccount: number;
  /** The number of units that a reader gets at a time. */
  atATime: number;
}

/** An allowance that grows with time, up to that of one second. It may be overdrawn by what one reader gets at a time. */
class Allowance {
  private free: number;
  private at = performance.now();
  /** The number of readers that wait for it. */
  waiting = 0;

  constructor(private readonly perSecond: number) {
    this.free = perSecond;
  }

  get isOpen(): boolean {
    const now = performance.now();
    this.free = Math.min(this.perSecond, this.free + ((now - this.at) / 1_000) * this.perSecond);
    this.at = now;
    return this.free > 0;
  }

  get isWhole(): boolean {
    return this.isOpen && this.free === this.perSecond && this.waiting === 0;
  }

  spend(units: number): void {
    this.free -= units;
  }
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
  private readonly whole: Allowance;
  private readonly accounts = new Map<string, Allowance>();
  private readonly readers = new FairQueue<Waiter>();
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly rates: ReadRates) {
    this.whole = new Allowance(rates.perSecond);
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
      const units = this.rates.atATime - left;
      left += units;
      return this.acquire(account, units, signal);
    };
  }

  private acquire(account: string, units: number, signal: AbortSignal): Promise<void> | null {
    const own = this.allowanceOf(account);
    if (own.waiting === 0 && own.isOpen && this.whole.isOpen) {
      this.spend(own, units);
      return null;
    }
    return new Promise((resolve) => {
      const end = () => {
        own.waiting -= 1;
        signal.removeEventListener('abort', leave);
        resolve();
      };
      const leave = () => {
        this.readers.remove(place);
        end();
      };
      const goOn = () => {
        this.spend(own, units);
        end();
      };
      own.waiting += 1;
      const place: Place<Waiter> = this.readers.enqueue(account, { account, goOn });
      if (signal.aborted) leave();
      else signal.addEventListener('abort', leave, { once: true });
      this.timer ??= setTimeout(() => this.give(), TICK_MS);
    });
  }

  /** Lets readers go on, an account after the other, as far as the allowances reach. */
  private give(): void {
    this.timer = undefined;
    for (const [account, own] of this.accounts) if (own.isOpen) this.readers.resume(account);
    while (this.readers.isReady && this.whole.isOpen) {
      const next = this.readers.dequeue() as Waiter;
      next.goOn();
      if (!this.allowanceOf(next.account).isOpen) this.readers.pause(next.account);
    }
    if (this.readers.size > 0) this.timer = setTimeout(() => this.give(), TICK_MS);
  }

  private spend(own: Allowance, units: number): void {
    own.spend(units);
    this.whole.spend(units);
  }

  private allowanceOf(account: string): Allowance {
    const known = this.accounts.get(account);
    if (known !== undefined) return known;
    if (this.accounts.size >= REMEMBERED_MAX) for (const [name, own] of this.accounts) if (own.isWhole) this.accounts.delete(name);
    const made = new Allowance(this.rates.perSecondOfAccount);
    this.accounts.set(account, made);
    return made;
  }
}
