import { Node, Yallist } from 'yallist';

import { AccountCounter, type Limits, type Share, shareKey } from './account-counter.ts';
import { FairQueue, type Place } from './fair-queue.ts';

export interface FairLimiterStats {
  /** The amount in use: the number of pieces of work that run, unless they are of different sizes. */
  running: number;
  waiting: number;
  /** The time that the oldest waiting work has waited, in ms; 0 if none waits. */
  oldestWaitMs: number;
  /** The numbers of each account that has work here, those with the most work first. */
  accounts: { account: string; running: number; waiting: number }[];
}

/** The state of the queue for work that has to wait: how much of its account runs, and how much waits before it. */
export interface Wait {
  running: number;
  before: number;
}

interface Waiter {
  amount: number;
  since: number;
  start: () => void;
}

/** The waiting work of one agent. */
interface AgentLine {
  share: Share;
  waiting: Yallist<Waiter>;
  /** The agent's place in the queue for its account's next turn; null while the agent is at its limit. */
  place: Place<AgentLine> | null;
}

/**
 * Limits how much is in use at once, such as places or bytes of memory, fairly: what is free goes to the account whose turn it is, and there to
 * the agent whose turn it is. What comes first and does not fit yet is not overtaken. What is larger than a limit counts as that limit, so
 * that everything has its turn in the end. Callers limit how much waits.
 */
export class FairLimiter {
  private readonly used: AccountCounter;
  private readonly waiting = new AccountCounter();
  private readonly lines = new Map<string, AgentLine>();
  /** The agents that have waiting work and are not at their limit. Accounts at their limit are paused. */
  private readonly ready = new FairQueue<AgentLine>();

  constructor(limits: Limits) {
    this.used = new AccountCounter(limits);
  }

  /** The amount in use. */
  get inUse(): number {
    return this.used.all;
  }

  /** Runs the work as soon as there is room for one more, and calls `onWait` if that is not at once. Rejects with the signal's reason if it aborts before. */
  async run<T>(share: Share, signal: AbortSignal, work: () => Promise<T>, onWait?: (wait: Wait) => void): Promise<T> {
    const before = this.waiting.of(share.account);
    const acquiring = this.acquire(share, signal);
    if (this.waiting.of(share.account) > before) onWait?.({ running: this.used.of(share.account), before });
    const release = await acquiring;
    try {
      return await work();
    } finally {
      release();
    }
  }

  /**
   * Resolves when there is room for the amount, with an idempotent function that releases it. Rejects with the signal's reason if it aborts
   * before.
   */
  async acquire(share: Share, signal: AbortSignal, amount = 1): Promise<() => void> {
    signal.throwIfAborted();
    const counted = this.used.capped(amount);
    await this.turn(share, counted, signal);
    return this.releaseOf(share, counted);
  }

  /** Does as `acquire` if there is room and no earlier work waits for that room; otherwise returns null. */
  tryAcquire(share: Share, amount = 1): (() => void) | null {
    const counted = this.used.capped(amount);
    // Work that is ready and still waits can only wait for room in the whole, so it goes first.
    if (this.lacking(share, amount) !== null || this.waiting.of(share.account) > 0 || this.ready.isReady) return null;
    this.used.add(share, counted);
    return this.releaseOf(share, counted);
  }

  /** Returns the limit that leaves no room for the amount; null if there is room. */
  lacking(share: Share, amount = 1): keyof Limits | null {
    return this.used.lacking(share, this.used.capped(amount));
  }

  /** Returns the current numbers. Takes time in proportion to the accounts and agents that have work here. */
  stats(): FairLimiterStats {
    const oldest = Math.min(...[...this.lines.values()].map(({ waiting }) => waiting.head?.value.since ?? Infinity));
    const names = new Set([...this.used.byAccount(), ...this.waiting.byAccount()].map(([account]) => account));
    return {
      running: this.used.all,
      waiting: this.waiting.all,
      oldestWaitMs: oldest === Infinity ? 0 : performance.now() - oldest,
      accounts: [...names]
        .map((account) => ({ account, running: this.used.of(account), waiting: this.waiting.of(account) }))
        .sort((a, b) => b.running + b.waiting - a.running - a.waiting),
    };
  }

  private turn(share: Share, amount: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const line = this.lineOf(share);
      const node = new Node<Waiter>({
        amount,
        since: performance.now(),
        start: () => {
          signal.removeEventListener('abort', giveUp);
          resolve();
        },
      });
      const giveUp = () => {
        line.waiting.removeNode(node);
        this.waiting.add(share, -1);
        if (line.waiting.length === 0) this.drop(line);
        reject(signal.reason as Error);
        // The next one may be smaller, and fit.
        this.reconsider(share);
      };
      signal.addEventListener('abort', giveUp, { once: true });
      line.waiting.pushNode(node);
      this.waiting.add(share, 1);
      if (line.waiting.length > 1) return;
      line.place = this.ready.enqueue(share.account, line);
      this.startNext();
    });
  }

  private releaseOf(share: Share, amount: number): () => void {
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      this.used.add(share, -amount);
      this.reconsider(share);
    };
  }

  /** Lets the agent and its account have turns again, now that they may have room. */
  private reconsider(share: Share): void {
    const line = this.lines.get(shareKey(share));
    if (line !== undefined) line.place ??= this.ready.enqueue(share.account, line);
    this.ready.resume(share.account);
    this.startNext();
  }

  private startNext(): void {
    for (let line = this.ready.peek(); line !== undefined; line = this.ready.peek()) {
      const { amount } = (line.waiting.head as Node<Waiter>).value;
      const lacking = this.used.lacking(line.share, amount);
      // Nobody is served before the first one that does not fit, or that one could wait for ever.
      if (lacking === 'all') return;
      if (lacking === 'account') this.ready.pause(line.share.account);
      else if (lacking === 'agent') this.leave(line);
      else this.start(line);
    }
  }

  /** Starts the first work of the line, whose turn it is. */
  private start(line: AgentLine): void {
    this.ready.dequeue();
    line.place = null;
    const { amount, start } = line.waiting.shift() as Waiter;
    this.waiting.add(line.share, -1);
    this.used.add(line.share, amount);
    if (line.waiting.length === 0) this.drop(line);
    else line.place = this.ready.enqueue(line.share.account, line);
    start();
  }

  private leave(line: AgentLine): void {
    if (line.place !== null) this.ready.remove(line.place);
    line.place = null;
  }

  private drop(line: AgentLine): void {
    this.leave(line);
    this.lines.delete(shareKey(line.share));
  }

  private lineOf(share: Share): AgentLine {
    const key = shareKey(share);
    const found = this.lines.get(key);
    if (found !== undefined) return found;
    const line: AgentLine = { share, waiting: new Yallist(), place: null };
    this.lines.set(key, line);
    return line;
  }
}
