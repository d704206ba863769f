import { AccountCounter, sharesOf } from '../../kernel/limits/account-counter.ts';
import { FairLimiter } from '../../kernel/limits/fair-limiter.ts';
import { timeoutSignal } from '../../kernel/async/timeout-signal.ts';
import { Refusal } from '../../kernel/errors/refusal.ts';

/** The reads that run at once, of the ten connections that all reads share, and those that wait, of which one network may have a quarter. */
const READS_MAX = 2;
const WAITING_MAX = 1_000;
/** The longest wait for a turn, ms. */
const WAIT_MS = 5_000;

/**
 * Lets callers that are not known read few streams at once, network by network in turn. Without it, those who ask for ids that nothing has
 * would fill the queue for the database's connections in front of everybody.
 */
export class StrangersReads {
  private readonly limiter = new FairLimiter({ all: READS_MAX });
  private readonly waiting = new AccountCounter(sharesOf(WAITING_MAX));

  /** Reads when it is the network's turn. Throws `rate_limited` if too many wait, or the turn does not come in time. */
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

function tooMany(): Refusal {
  return new Refusal('rate_limited', 'Too many callers without a credential ask at once.', { retryAfterSeconds: 1 });
}
