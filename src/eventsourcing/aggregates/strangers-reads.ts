import { FairLimiter } from '../../kernel/limits/fair-limiter.ts';
import { timeoutSignal } from '../../kernel/async/timeout-signal.ts';
import { Refusal } from '../../kernel/errors/refusal.ts';

/** The reads that run at once, of the ten connections that all reads share, and those that wait: of all networks, and of one. */
const READS_MAX = 2;
const WAITING_MAX = 1_000;
const WAITING_PER_NETWORK = 250;
/** The longest wait for a turn, ms. */
const WAIT_MS = 5_000;

/**
 * Lets callers that are not known read few streams at once, network by network in turn. Without it, those who ask for ids that nothing has
 * would fill the queue for the database's connections in front of everybody.
 */
export class StrangersReads {
  private readonly limiter = new FairLimiter({ limit: READS_MAX });
  private readonly waiting = new Map<string, number>();
  private waitingInAll = 0;

  /** Reads when it is the network's turn. Throws `rate_limited` if too many wait, or the turn does not come in time. */
  async run<T>(network: string, read: () => Promise<T>): Promise<T> {
    const own = this.waiting.get(network) ?? 0;
    if (this.waitingInAll >= WAITING_MAX || own >= WAITING_PER_NETWORK) throw tooMany();
    this.count(network, 1);
    let isWaiting = true;
    const leave = () => {
      if (isWaiting) this.count(network, -1);
      isWaiting = false;
    };
    try {
      return await this.limiter.run({ account: network, agent: '' }, timeoutSignal(WAIT_MS), () => {
        leave();
        return read();
      });
    } catch (error) {
      throw isWaiting ? tooMany() : error;
    } finally {
      leave();
    }
  }

  private count(network: string, change: number): void {
    this.waitingInAll += change;
    const own = (this.waiting.get(network) ?? 0) + change;
    if (own === 0) this.waiting.delete(network);
    else this.waiting.set(network, own);
  }
}

function tooMany(): Refusal {
  return new Refusal('rate_limited', 'Too many callers without a credential ask at once.', { retryAfterSeconds: 1 });
}
