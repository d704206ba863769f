import { type Place, RoundRobin } from '../async/round-robin.ts';

/** `signal`: somebody waits, or something has changed. `reminder`: the key may have been forgotten. Signals go first. */
export type Priority = 'signal' | 'reminder';

/** While both wait, a reminder is given a slot after so many signals. */
const SIGNALS_PER_REMINDER = 15;
/** The part of all slots that reminders may hold, so that a signal does not wait for them. */
const REMINDERS_PART = 0.5;

/** One key's claim to a slot, used again for as long as the key is known. */
export interface Claim {
  /** Takes turns with other accounts. The claims of keys whose account nobody knows share the turns of the empty name. */
  account: string;
  priority: Priority;
  phase: 'idle' | 'waiting' | 'held';
  /** When it began to wait, by `performance.now()`. */
  since: number;
  place: Place<Claim> | null;
  onGranted: () => void;
}

/**
 * A fixed number of slots, given to signals before reminders, to the accounts in turn, and within an account in the order of the requests.
 * Every operation takes the same time, however many claims wait.
 */
export class Slots {
  private readonly lines = { signal: new RoundRobin<Claim>(), reminder: new RoundRobin<Claim>() };
  private readonly held = { signal: 0, reminder: 0 };
  private readonly remindersMax: number;
  /** Slots given to signals while a reminder waited, since the last one given to a reminder. */
  private signalsInARow = 0;

  constructor(private readonly limit: number) {
    this.remindersMax = Math.max(1, Math.floor(limit * REMINDERS_PART));
  }

  /** Calls `onGranted` once the claim holds a slot, perhaps at once. Work that goes on stands `ahead` of its account's work that begins. */
  request(claim: Claim, ahead = false): void {
    claim.phase = 'waiting';
    claim.since = performance.now();
    claim.place = this.lines[claim.priority].add(claim.account, claim, ahead);
    this.grant();
  }

  /** Gives the slot back, or the request up. */
  release(claim: Claim): void {
    if (claim.place !== null) this.lines[claim.priority].remove(claim.place);
    if (claim.phase === 'held') this.held[claim.priority] -= 1;
    claim.place = null;
    claim.phase = 'idle';
    this.grant();
  }

  /** From now on the claim counts as that account's, at that priority. One that waits becomes the last of the new line. */
  reclassify(claim: Claim, account: string, priority: Priority): void {
    const { place } = claim;
    if (claim.account === account && claim.priority === priority) return;
    if (place !== null) this.lines[claim.priority].remove(place);
    if (claim.phase === 'held') {
      this.held[claim.priority] -= 1;
      this.held[priority] += 1;
    }
    claim.account = account;
    claim.priority = priority;
    if (place !== null) claim.place = this.lines[priority].add(account, claim, place.ahead);
    this.grant();
  }

  /** Claims that wait, by priority. */
  get waiting(): Record<Priority, number> {
    return { signal: this.lines.signal.size, reminder: this.lines.reminder.size };
  }

  /** Claims that hold a slot. */
  get working(): number {
    return this.held.signal + this.held.reminder;
  }

  /** How long the claim that waits longest has waited, ms; 0 where none waits. Takes time in proportion to the accounts that wait. */
  get oldestWaitMs(): number {
    let oldest = Infinity;
    for (const line of Object.values(this.lines)) for (const { since } of line.heads()) oldest = Math.min(oldest, since);
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
    const { signal, reminder } = this.lines;
    const mayRemind = reminder.isReady && this.held.reminder < this.remindersMax;
    if (mayRemind && (!signal.isReady || this.signalsInARow >= SIGNALS_PER_REMINDER)) {
      this.signalsInARow = 0;
      return reminder.take();
    }
    if (reminder.isReady && signal.isReady) this.signalsInARow += 1;
    return signal.take();
  }
}
