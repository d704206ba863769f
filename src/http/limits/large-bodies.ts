import { timeoutSignal } from '../../kernel/async/timeout-signal.ts';
import { TokenBuckets } from '../../kernel/limits/token-bucket.ts';
import { pause } from '../../kernel/async/pause.ts';
import { sharesOf } from '../../kernel/limits/account-counter.ts';
import { FairLimiter } from '../../kernel/limits/fair-limiter.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';

/** The part of the large bodies that are read at once which may be one account's. */
const ACCOUNT_PART = 1 / 8;
/** The number of large bodies that are read at once. */
const READ_AT_ONCE = 64;
/** The same for webhooks without a token. */
export const TOKENLESS_READ_AT_ONCE = 16;
/** The longest wait of a body until it is read, in ms. */
const PATIENCE_MS = 10_000;
/** The pause after parsing a large body, as a multiple of the time that it took, which is left to other work. */
const OTHERS_TIMES = 3;
/** The number of times that the bytes of a refused body count, since they cost as much and help nobody. */
const REFUSED_TIMES = 8;
/** The seconds for which an account may send nothing and then send so much more at once. */
const SAVED_SECONDS = 4;

/**
 * Keeps large bodies from blocking other requests, however many arrive at once. Of an account only some are read at a time, and so many
 * bytes in a second; the others wait in their connections. They are parsed one after the other, with the accounts in turn, and take only a part of the process's time.
 */
export class LargeBodies {
  private readonly places: FairLimiter;
  private readonly turns = new FairLimiter({ all: 1 });
  /** The bytes that may be read of each account. */
  private readonly bytes: TokenBuckets;

  /** `bytesPerSecond` is what is read of one account. */
  constructor(
    bytesPerSecond: number,
    readAtOnce = READ_AT_ONCE,
    private readonly timeoutMs = PATIENCE_MS,
  ) {
    this.places = new FairLimiter(sharesOf(readAtOnce, { account: ACCOUNT_PART }));
    this.bytes = new TokenBuckets({ perSecond: bytesPerSecond, savedMax: bytesPerSecond * SAVED_SECONDS });
  }

  /**
   * Runs the work, which reads a body of so many bytes, as soon as the account may have it read. Throws `rate_limited` if that takes too
   * long.
   */
  async read<T>(account: string, bytes: number, work: () => Promise<T>): Promise<T> {
    const patience = timeoutSignal(this.timeoutMs);
    try {
      return await this.places.run({ account }, patience, async () => {
        const waitMs = this.bytes.spend(account, bytes, performance.now());
        if (waitMs > 0) await pause(waitMs, patience);
        patience.throwIfAborted();
        return work();
      });
    } catch (error) {
      if (error !== patience.reason) throw error;
      const detail = 'Too many large bodies of this account are on their way, or they come too slowly.';
      throw new ProblemError('rate_limited', detail, { retryAfterSeconds: 1 });
    }
  }

  /** Takes the bytes of a body that was read and then refused from the account's allowance again. */
  refused(account: string, bytes: number): void {
    this.bytes.spend(account, bytes * (REFUSED_TIMES - 1), performance.now());
  }

  /** Returns the parser's result, once it is this body's turn. The number of waiting bodies is bounded by that of bodies being read. */
  parse<T>(account: string, parser: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      const work = async () => {
        const began = performance.now();
        try {
          resolve(parser());
        } catch (error) {
          reject(error);
        }
        await pause((performance.now() - began) * OTHERS_TIMES);
      };
      this.turns.run({ account }, nothingEndsIt, work).catch(reject);
    });
  }
}

const nothingEndsIt = new AbortController().signal;
