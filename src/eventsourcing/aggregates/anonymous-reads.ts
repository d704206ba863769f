import { AccountCounter, sharesOf } from '../../kernel/limits/account-counter.ts';
import { FairLimiter } from '../../kernel/limits/fair-limiter.ts';
import { timeoutSignal } from '../../kernel/async/timeout-signal.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';

/**
 * The most reads that run at once, of the ten connections that all reads share, and the most that wait, of which one network may have a
 * quarter.
 */
const READS_MAX = 2;
const WAITING_MAX = 1_000;
/** The longest wait for a slot, in ms. */
const WAIT_MS = 5_000;

/**
 * Limits the reads of callers who are not known to a few at once, taking turns by network. Without it, requests for ids that do not exist
 * would fill the queue for the database's connections, and everybody else would wait behind them.
 */
export class AnonymousReads {
  private readonly limiter = new FairLimiter({ all: READS_MAX });
  private readonly waiting = new AccountCounter(sharesOf(WAITING_MAX));

  /** Reads when it is the network's turn. Throws `rate_limited` if too many wait, or if the turn does not come in time. */
  async run<T>(network: string, read: () => Promise<T>): Promise<T> {
    const leave = this.waiting.tryAcquire({ account: network });
    if (leave === null) throw tooMany();
    let isWaiting = true;
    try {
      return await this.limiter.run({ account: network }, timeoutSignal(WAIT_MS), () => {
        isWaiting = false;
        leave();
        return read();
      });
    } catch (error) {
      throw isWaiting ? tooMany() : error;
    } finally {
      leave();
    }
  }
}

function tooMany(): ProblemError {
  return new ProblemError('rate_limited', 'There are too many requests without a credential.', { retryAfterSeconds: 1 });
}
