import { Injectable } from '@nestjs/common';

import { Config } from '../../kernel/config/config.ts';
import { type Share, sharesOf } from '../../kernel/limits/account-counter.ts';
import { FairLimiter, type Wait } from '../../kernel/limits/fair-limiter.ts';

/**
 * The kinds of work of which an engine does a limited number at a time. Other calls are quick, and bounded by the passes that make them.
 */
export type EngineWork = 'start' | 'build' | 'pull';

/**
 * Bounds the heavy work of the engine by kind. An account has at most half of the slots, so that pulls that never end cannot block other
 * accounts.
 */
@Injectable()
export class EngineLimits {
  private readonly limiters: Record<EngineWork, FairLimiter>;
  private running = 0;
  private endedAt = -Infinity;

  constructor(config: Config) {
    const limiter = (limit: number) => new FairLimiter(sharesOf(limit, { account: 1 / 2 }));
    this.limiters = {
      start: limiter(config.containerStarts),
      build: limiter(config.imageBuilds),
      pull: limiter(config.imagePulls),
    };
  }

  /** Runs the work as soon as a place is free, and calls `onWait` if that is not at once. Rejects with the signal's reason if the signal aborts first. */
  run<T>(kind: EngineWork, share: Share, signal: AbortSignal, work: () => Promise<T>, onWait?: (wait: Wait) => void): Promise<T> {
    const counted = async () => {
      this.running += 1;
      try {
        return await work();
      } finally {
        this.running -= 1;
        this.endedAt = performance.now();
      }
    };
    return this.limiters[kind].run(share, signal, counted, onWait);
  }

  /** The time since the engine did the last heavy work of this process, in ms; 0 while it does some. */
  get quietMs(): number {
    return this.running > 0 ? 0 : performance.now() - this.endedAt;
  }
}
