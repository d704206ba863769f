import { type Limits, sharesOf } from '../../../kernel/limits/account-counter.ts';
import { FairLimiter } from '../../../kernel/limits/fair-limiter.ts';

const MIB = 1_048_576;
/** The bytes of frames and pictures of desktops that one process has in memory; an account may have half of them. */
const LIMITS = sharesOf(256 * MIB, { account: 1 / 2 });

/** Caches frames until others need the memory. */
export interface FrameCache {
  readonly accountId: string;
  evict(): void;
}

/**
 * Bounds the memory of frames and pictures. Those in use keep their memory until it is released. Cached ones use what is left, and are
 * evicted least recently used first: those of the same account if that account's limit is reached.
 */
export class FrameMemory {
  private readonly bytes: FairLimiter;
  /** The caches, least recently used first, with the functions that release their memory. */
  private readonly cached = new Map<FrameCache, () => void>();

  constructor(limits: Limits = LIMITS) {
    this.bytes = new FairLimiter(limits);
  }

  get inUse(): number {
    return this.bytes.inUse;
  }

  /** Resolves once the memory is available, with the function that releases it. Rejects with the signal's reason. */
  reserve(accountId: string, bytes: number, signal: AbortSignal): Promise<() => void> {
    this.evictFor(accountId, bytes);
    return this.bytes.acquire({ account: accountId }, signal, bytes);
  }

  /** Reserves the memory if it is available now; otherwise returns null. */
  tryReserve(accountId: string, bytes: number): (() => void) | null {
    this.evictFor(accountId, bytes);
    return this.bytes.tryAcquire({ account: accountId }, bytes);
  }

  /** Counts the bytes that the cache keeps. They are evicted immediately if others wait for the memory. */
  trackCached(keeper: FrameCache, bytes: number): void {
    this.untrack(keeper);
    if (bytes === 0) return;
    const release = this.tryReserve(keeper.accountId, bytes);
    if (release === null) keeper.evict();
    else this.cached.set(keeper, release);
  }

  /** Stops counting the bytes of the cache. */
  untrack(keeper: FrameCache): void {
    const release = this.cached.get(keeper);
    this.cached.delete(keeper);
    release?.();
  }

  private evictFor(accountId: string, bytes: number): void {
    for (;;) {
      const lacking = this.bytes.lacking({ account: accountId }, bytes);
      if (lacking === null) return;
      const keeper = [...this.cached.keys()].find((each) => lacking === 'all' || each.accountId === accountId);
      if (keeper === undefined) return;
      keeper.evict();
      this.untrack(keeper);
    }
  }
}
