import { FairQueue, type Place } from '../../kernel/limits/fair-queue.ts';

/** `signal`: a caller waits, or something has changed. `reminder`: a change of the key may have been missed. Signals go first. */
export type Priority = 'signal' | 'reminder';

/** A reminder gets a slot after this many signals while both wait. */
const SIGNALS_PER_REMINDER = 15;
/** The fraction of all slots that reminders may hold, so that signals find free ones. */
const REMINDERS_FRACTION = 0.5;

/** The claim of one key to a slot, which is reused for as long as the key is known. */
export interface Claim {
  /** The account, which takes turns with others. Keys whose account is unknown share the turns of the empty name. */
  account: string;
  priority: Priority;
  phase: 'idle' | 'waiting' | 'held';
  /** The start of the wait, by `performance.now()`. */
  since: number;
  place: Place<Claim> | null;
  onGranted: () => void;
}

/**
 * A fixed number of slots, given to signals before reminders, to the accounts in turn, and within an account in the order of the requests.
 * The cost of an operation does not depend on the number of waiting claims.
 */
export class Slots {
  private readonly queues = { signal: new FairQueue<Claim>(), reminder: new FairQueue<Claim>() };
  private readonly held = { signal: 0, reminder: 0 };
  private readonly remindersMax: number;
  /** The number of slots given to signals while a reminder waited, since the last slot that a reminder got. */
  private signalsInARow = 0;

  constructor(private readonly limit: number) {
    this.remindersMax = Math.max(1, Math.floor(limit * REMINDERS_FRACTION));
  }

  /**
   * Calls `onGranted` once the claim holds a slot, perhaps immediately. With `ahead`, which is for work in progress, it goes before the
   * other claims of its account.
   */
  request(claim: Claim, ahead = false): void {
    claim.phase = 'waiting';
    claim.since = performance.now();
    claim.place = this.queues[claim.priority].enqueue(claim.account, claim, ahead);
    this.grant();
  }

  /** Releases the slot, or withdraws the request. */
  release(claim: Claim): void {
    if (claim.place !== null) this.queues[claim.priority].remove(claim.place);
    if (claim.phase === 'held') this.held[claim.priority] -= 1;
    claim.place = null;
    claim.phase = 'idle';
    this.grant();
  }

  /** Moves the claim to that account and priority. A waiting claim becomes the last in the new queue. */
  reclassify(claim: Claim, account: string, priority: Priority): void {
    const { place } = claim;
    if (claim.account === account && claim.priority === priority) return;
    if (place !== null) this.queues[claim.priority].remove(place);
    if (claim.phase === 'held') {
      this.held[claim.priority] -= 1;
      this.held[priority] += 1;
    }
    claim.account = account;
    claim.priority = priority;
    if (place !== null) claim.place = this.queues[priority].enqueue(account, claim, place.ahead);
    this.grant();
  }

  /** Returns the number of waiting claims by priority. */
  get waiting(): Record<Priority, number> {
    return { signal: this.queues.signal.size, reminder: this.queues.reminder.size };
  }

  /** Returns the number of claims that hold a slot. */
  get working(): number {
    return this.held.signal + this.held.reminder;
  }

  /** The longest time that a claim has waited, in ms; 0 if none waits. It takes time in proportion to the accounts that wait. */
  get oldestWaitMs(): number {
    let oldest = Infinity;
    for (const line of Object.values(this.queues)) for (const { since } of line.heads()) oldest = Math.min(oldest, since);
    return oldest === Infinity ? 0 : performance.now() - oldest;
  }

  private grant(): void {
    while (this.working < this.limit) {
      const claim = this.next();
      if (claim === undefined) return;
      claim.place = null;
      claim.phase = 'held';
      this.held[claim.priority] += 1;
      claim.onGranted();
    }
  }

  private next(): Claim | undefined {
    const { signal, reminder } = this.queues;
    const mayRemind = reminder.isReady && this.held.reminder < this.remindersMax;
    if (mayRemind && (!signal.isReady || this.signalsInARow >= SIGNALS_PER_REMINDER)) {
      this.signalsInARow = 0;
      return reminder.dequeue();
    }
    if (reminder.isReady && signal.isReady) this.signalsInARow += 1;
    return signal.dequeue();
  }
}
