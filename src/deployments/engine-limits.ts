import { Injectable } from '@nestjs/common';

import { Config } from '../config.ts';
import { FairLimiter, type Share } from '../platform/async/fair-limiter.ts';

/** What an engine does only so much of at once; the other calls are quick, and bounded by the passes that make them. */
export type EngineWork = 'start' | 'build' | 'pull';

/** Bounds the heavy work of the engine by its kind. An account has at most half of the places, so that one whose pulls never end holds up nobody else. */
@Injectable()
export class EngineLimits {
  private readonly limiters: Record<EngineWork, FairLimiter>;

  constructor(config: Config) {
    const limiter = (limit: number) => new FairLimiter({ limit, perAccount: Math.ceil(limit / 2) });
    this.limiters = {
      start: limiter(config.containerStarts),
      build: limiter(config.imageBuilds),
      pull: limiter(config.imagePulls),
    };
  }

  /** Does the work as soon as it has a place. Rejects with the signal's reason where that aborts before. */
  run<T>(kind: EngineWork, share: Share, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    return this.limiters[kind].run(share, signal, work);
  }
}
