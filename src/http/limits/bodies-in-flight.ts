import { Refusal } from '../../kernel/errors/refusal.ts';

const MIB = 1_048_576;

/**
 * The unparsed bytes of bodies that one process holds in memory at most: of all callers, of one account, and of all callers without a
 * credential.
 */
const LIMITS = { all: 64 * MIB, account: 16 * MIB, strangers: 4 * MIB };
/** The same for webhooks without a token. */
export const TOKENLESS_IN_FLIGHT = { all: 16 * MIB, account: 4 * MIB, strangers: 0 };

/** Counts the bytes of bodies that have arrived and are not parsed yet, so that slow or many bodies can't fill the memory. */
export class BodiesInFlight {
  private readonly byAccount = new Map<string | null, number>();
  private all = 0;

  constructor(private readonly limits: typeof LIMITS = LIMITS) {}

  /**
   * Adds bytes; `account` is null for a caller without a credential. Throws `rate_limited` above a limit, but counts the bytes
   * nevertheless.
   */
  add(account: string | null, bytes: number): void {
    const ofAccount = (this.byAccount.get(account) ?? 0) + bytes;
    this.byAccount.set(account, ofAccount);
    this.all += bytes;
    if (ofAccount > (account === null ? this.limits.strangers : this.limits.account)) throw tooMuch('of this caller');
    if (this.all > this.limits.all) throw tooMuch('of all callers');
  }

  remove(account: string | null, bytes: number): void {
    const left = (this.byAccount.get(account) ?? 0) - bytes;
    if (left > 0) this.byAccount.set(account, left);
    else this.byAccount.delete(account);
    this.all -= bytes;
  }
}

function tooMuch(whose: string): Refusal {
  return new Refusal('rate_limited', `The bodies ${whose} that are on their way are too large together.`, { retryAfterSeconds: 1 });
}
