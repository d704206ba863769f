import { LRUCache } from 'lru-cache';

/** The number of shares whose allowance is remembered. */
const SHARES_MAX = 10_000;

export interface AllowanceLimits {
  perSecond: number;
  /** The amount that a share saves while it spends nothing, and can then spend at once. */
  savedMax: number;
  /** The amount that a share can owe; what it spends beyond that is forgotten. There is no bound by default. */
  owedMax?: number;
}

interface Allowance {
  /** The amount that could be spent at that time (by `performance.now()`); below zero, it is owed. */
  left: number;
  at: number;
}

/** Gives every share, such as an account or an address, the same amount of something a second. */
export class Allowances {
  private readonly allowances = new LRUCache<string, Allowance>({ max: SHARES_MAX });

  constructor(private readonly limits: AllowanceLimits) {}

  /** Takes the amount from the share's allowance. Returns the time in milliseconds after which it will have been earned; 0 if it has been. */
  spend(share: string, amount: number): number {
    const { perSecond, savedMax, owedMax = Infinity } = this.limits;
    const now = performance.now();
    const before = this.allowances.get(share) ?? { left: savedMax, at: now };
    const earned = ((now - before.at) / 1_000) * perSecond;
    const left = Math.max(Math.min(savedMax, before.left + earned) - amount, -owedMax);
    this.allowances.set(share, { left, at: now });
    return Math.max(0, (-left / perSecond) * 1_000);
  }
}
