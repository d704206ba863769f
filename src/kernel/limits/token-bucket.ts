import { LRUCache } from 'lru-cache';

/** The number of keys whose buckets are kept. The bucket of a key that was dropped is full when the key comes again. */
const KEYS_MAX = 10_000;

export interface TokenRate {
  perSecond: number;
  /** The largest number of tokens that are saved while none is spent, and can then be spent at once. A new bucket holds as many. */
  savedMax: number;
  /** The largest number of tokens that are owed; what is spent beyond that is forgotten. There is no bound by default. */
  owedMax?: number;
}

/**
 * Earns tokens at a steady rate. More can be spent than were earned; they are then owed. All times are in ms, by a clock of the caller's, and a
 * time before an earlier one counts as that one.
 */
export class TokenBucket {
  private tokens: number;
  private at = -Infinity;

  constructor(private readonly rate: TokenRate) {
    this.tokens = rate.savedMax;
  }

  /** Returns the number of tokens that can be spent at that time; it is negative if some are owed. */
  left(nowMs: number): number {
    if (nowMs > this.at) {
      this.tokens = Math.min(this.rate.savedMax, this.tokens + ((nowMs - this.at) / 1_000) * this.rate.perSecond);
      this.at = nowMs;
    }
    return this.tokens;
  }

  /** Spends the tokens. Returns the time in ms after which they will have been earned; 0 if they have been. */
  spend(tokens: number, nowMs: number): number {
    const { perSecond, owedMax = Infinity } = this.rate;
    this.tokens = Math.max(this.left(nowMs) - tokens, -owedMax);
    return Math.max(0, (-this.tokens / perSecond) * 1_000);
  }
}

/** Keeps a bucket for each key, such as an account or a network, all of one rate. */
export class TokenBuckets {
  private readonly buckets: LRUCache<string, TokenBucket>;

  constructor(
    private readonly rate: TokenRate,
    keysMax = KEYS_MAX,
  ) {
    this.buckets = new LRUCache({ max: keysMax });
  }

  left(key: string, nowMs: number): number {
    return this.bucketOf(key).left(nowMs);
  }

  spend(key: string, tokens: number, nowMs: number): number {
    return this.bucketOf(key).spend(tokens, nowMs);
  }

  private bucketOf(key: string): TokenBucket {
    const found = this.buckets.get(key);
    if (found !== undefined) return found;
    const made = new TokenBucket(this.rate);
    this.buckets.set(key, made);
    return made;
  }
}
