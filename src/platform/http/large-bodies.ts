import { setTimeout as wait } from 'node:timers/promises';

import { FairLimiter } from '../async/fair-limiter.ts';
import { Refusal } from '../refusal.ts';

/** How many large bodies are read at once, and how many of them may be one account's. */
const READ_AT_ONCE = { limit: 64, perAccount: 8 };
/** How long a body waits until it is read, ms. */
const PATIENCE_MS = 10_000;
/** After a large body was parsed, so many times as long as that took is everybody else's. */
const OTHERS_TIMES = 3;

/**
 * Keeps large bodies from holding everybody else up, however many come at once. Of one account some are read at a time; the others wait in
 * their connections. They are parsed one after the other, those of the accounts in turn, and take a part of the process's time.
 */
export class LargeBodies {
  private readonly places: FairLimiter;
  private readonly turns = new FairLimiter({ limit: 1 });

  constructor(
    readAtOnce = READ_AT_ONCE,
    private readonly patienceMs = PATIENCE_MS,
  ) {
    this.places = new FairLimiter(readAtOnce);
  }

  /** Runs the work, which reads a body, as soon as the account may have one more read. Throws `rate_limited` where that takes too long. */
  async read<T>(account: string, work: () => Promise<T>): Promise<T> {
    const patience = AbortSignal.timeout(this.patienceMs);
    try {
      return await this.places.run({ account, agent: '' }, patience, work);
    } catch (error) {
      if (error !== patience.reason) throw error;
      const detail = 'Too many large bodies of this account are on their way, or they come too slowly.';
      throw new Refusal('rate_limited', detail, { retryAfterSeconds: 1 });
    }
  }

  /** What the parser makes of the bytes, when it is their turn. How many wait is bounded by those that are read. */
  parse<T>(account: string, parser: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      const work = async () => {
        const began = performance.now();
        try {
          resolve(parser());
        } catch (error) {
          reject(error);
        }
        await wait((performance.now() - began) * OTHERS_TIMES);
      };
      this.turns.run({ account, agent: '' }, nothingEndsIt, work).catch(reject);
    });
  }
}

const nothingEndsIt = new AbortController().signal;
