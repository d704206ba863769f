/** The account that takes something, and the part of it, such as an agent, if that is bounded too. */
export interface Share {
  account: string;
  agent?: string;
}

/** The most of something at once: of all accounts together, of one account, and of one agent. What is absent is not bounded. */
export interface Limits {
  all?: number;
  account?: number;
  agent?: number;
}

/** The part of the whole that one account may have, if nothing else is said. */
const ACCOUNT_PART = 1 / 4;
/** The error that a product of a whole and a part may have: 525 × (1 / 75) is 7.000000000000001. */
const ROUNDING = 1e-6;

/** Returns limits of which those of an account and of an agent are parts of the whole, rounded up: each may always have one. */
export function sharesOf(
  all: number,
  parts: { account?: number | undefined; agent?: number } = {},
): Limits & { all: number; account: number } {
  const part = (fraction: number) => Math.max(1, Math.ceil(all * fraction - ROUNDING));
  const { account = ACCOUNT_PART, agent } = parts;
  return { all, account: part(account), ...(agent === undefined ? {} : { agent: part(agent) }) };
}

/**
 * Counts how many, or how much, of something each account has at once, and says whether there is room for more. It keeps nothing of an
 * account that has none.
 */
export class AccountCounter {
  private readonly accounts = new Map<string, number>();
  private readonly agents = new Map<string, number>();
  private total = 0;

  constructor(private readonly limits: Limits = {}) {}

  /** The amount of all accounts together. */
  get all(): number {
    return this.total;
  }

  /** Returns the amount of the account. */
  of(account: string): number {
    return this.accounts.get(account) ?? 0;
  }

  /** Returns the amounts of all accounts that have any, the largest first. */
  byAccount(): [account: string, amount: number][] {
    return [...this.accounts].sort(([, one], [, other]) => other - one);
  }

  /** Returns the narrowest limit that leaves no room for that much more; null if there is room. */
  lacking(share: Share, amount = 1): keyof Limits | null {
    const { all = Infinity, account = Infinity, agent = Infinity } = this.limits;
    if ((this.agents.get(shareKey(share)) ?? 0) + amount > agent) return 'agent';
    if (this.of(share.account) + amount > account) return 'account';
    return this.total + amount > all ? 'all' : null;
  }

  /** Returns the amount, or the most that one share may ever have if that is less. */
  capped(amount: number): number {
    const { all = Infinity, account = Infinity, agent = Infinity } = this.limits;
    return Math.min(amount, all, account, agent);
  }

  /** Counts the amount if there is room, and returns an idempotent function that gives it back; null if there is none. */
  tryAcquire(share: Share, amount = 1): (() => void) | null {
    return this.lacking(share, amount) === null ? this.acquire(share, amount) : null;
  }

  /** Counts the amount, whatever the limits are. Returns an idempotent function that gives it back. */
  acquire(share: Share, amount = 1): () => void {
    this.add(share, amount);
    let isHeld = true;
    return () => {
      if (isHeld) this.add(share, -amount);
      isHeld = false;
    };
  }

  /** Changes the count by the amount, whatever the limits are. */
  add(share: Share, amount: number): void {
    this.total += amount;
    change(this.accounts, share.account, amount);
    if (this.limits.agent !== undefined) change(this.agents, shareKey(share), amount);
  }
}

/** Returns the key of a share: two of the same account and agent have the same. */
export function shareKey({ account, agent = '' }: Share): string {
  return `${account}\n${agent}`;
}

function change(counts: Map<string, number>, key: string, amount: number): void {
  const count = (counts.get(key) ?? 0) + amount;
  if (count > 0) counts.set(key, count);
  else counts.delete(key);
}
