import { DELIVERY_WAITS_MS } from '../../messages/index.ts';

/** Returns the time of the next attempt after that number of failed attempts, the last one at `now`; null if there is none. */
export function nextAttempt(failed: number, now: Date): Date | null {
  const wait = DELIVERY_WAITS_MS[failed - 1];
  return wait === undefined ? null : new Date(now.getTime() + wait);
}
