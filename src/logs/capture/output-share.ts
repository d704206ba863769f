import { type Place, RoundRobin } from '../../platform/async/round-robin.ts';

/** The output that is read in a second, in lines as `linesOf` counts them: of all accounts, and of one. */
const RATES = { perSecond: 4_000, perSecondOfAccount: 2_000 };
/** The number of lines that a reader gets at a time. */
const LINES_AT_A_TIME = 100;
/** The interval at which waiting readers get what has become free, in ms. */
const TICK_MS = 50;
/** The number of accounts whose allowance is remembered although it may be whole again. */
const REMEMBERED_MAX = 1_000;

/** An allowance that grows with time, up to that of one second. It may be overdrawn by one reader's lines. */
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

  spend(lines: number): void {
    this.free -= lines;
  }
}

interface Waiter {
  account: string;
  goOn(): void;
}

/**
 * Bounds how fast this process reads the output of agents: a container that prints faster is not read for a while, and its engine keeps what
 * it prints. Accounts take turns, and within an account its containers, so that floods hold up nobody else's output.
 */
export class OutputShare {
  private readonly whole: Allowance;
  private readonly accounts = new Map<string, Allowance>();
  private readonly readers = new RoundRobin<Waiter>();
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly rates = RATES) {
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
      const lines = LINES_AT_A_TIME - left;
      left += lines;
      return this.take(account, lines, signal);
    };
  }

  private take(account: string, lines: number, signal: AbortSignal): Promise<void> | null {
    const own = this.allowanceOf(account);
    if (own.waiting === 0 && own.isOpen && this.whole.isOpen) {
      this.spend(own, lines);
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
        this.spend(own, lines);
        end();
      };
      own.waiting += 1;
      const place: Place<Waiter> = this.readers.add(account, { account, goOn });
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
      const next = this.readers.take() as Waiter;
      next.goOn();
      if (!this.allowanceOf(next.account).isOpen) this.readers.pause(next.account);
    }
    if (this.readers.size > 0) this.timer = setTimeout(() => this.give(), TICK_MS);
  }

  private spend(own: Allowance, lines: number): void {
    own.spend(lines);
    this.whole.spend(lines);
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
