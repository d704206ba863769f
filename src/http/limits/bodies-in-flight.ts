import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { AccountCounter, sharesOf } from '../../kernel/limits/account-counter.ts';

const MIB = 1_048_576;

/** The unparsed bytes of bodies that one process holds in memory at most; an account may have a quarter of them. */
const BYTES_MAX = 64 * MIB;
/** The same for webhooks without a token. */
export const TOKENLESS_BYTES_MAX = 16 * MIB;
/** The part that all callers without a credential have together. */
const STRANGERS_PART = 1 / 16;
/** The name under which they are counted; no account has it. */
const STRANGERS = '';

/** Counts the bytes of bodies that have arrived and are not parsed yet, so that slow or many bodies can't fill the memory. */
export class BodiesInFlight {
  private readonly counter: AccountCounter;

  constructor(private readonly bytesMax = BYTES_MAX) {
    this.counter = new AccountCounter(sharesOf(bytesMax));
  }

  /**
   * Adds bytes; `account` is null for a caller without a credential. Throws `rate_limited` above a limit, but counts the bytes
   * nevertheless.
   */
  add(account: string | null, bytes: number): void {
    const share = { account: account ?? STRANGERS };
    this.counter.add(share, bytes);
    const lacking = this.counter.lacking(share, 0);
    const isStrangersShareFull = account === null && this.counter.of(STRANGERS) > this.bytesMax * STRANGERS_PART;
    if (lacking === 'account' || isStrangersShareFull) throw tooMuch('of this caller');
    if (lacking === 'all') throw tooMuch('of all callers');
  }

  remove(account: string | null, bytes: number): void {
    this.counter.add({ account: account ?? STRANGERS }, -bytes);
  }
}

function tooMuch(whose: string): ProblemError {
  return new ProblemError('rate_limited', `The bodies ${whose} that are on their way are too large together.`, { retryAfterSeconds: 1 });
}
