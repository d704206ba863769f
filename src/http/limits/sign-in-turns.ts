/** The time between two turns, in ms: 100 tries a minute for one account, from all addresses that it does not know. */
export const TURN_EVERY_MS = 600;
/** The number of tries that may come at once while nobody waits. */
export const TURNS_AT_ONCE = 20;
/** The longest wait for a turn, in ms; there are no turns beyond it. */
export const QUEUE_MS_MAX = 3_600_000;
/** The time for which a turn that has come is kept for its caller, in ms. */
export const TURN_KEPT_MS = 600_000;

/** All times are in ms since 1970. */
export interface Turns {
  /** The time up to which turns are given away; it may be past. */
  queueEnd: number;
  /** The time of the caller's turn; null if it has none. */
  place: number | null;
}

/**
 * Gives the tries for one account to its callers in turn. A caller that has to wait gets a place, and no second one, so that it waits for
 * `TURN_EVERY_MS` for each other caller at most, however often those try. `waitMs` is 0 if the caller may try now.
 */
export function nextTurn(now: number, { queueEnd, place }: Turns): Turns & { waitMs: number } {
  if (place !== null && place + TURN_KEPT_MS > now)
    return place <= now ? { waitMs: 0, queueEnd, place: null } : { waitMs: place - now, queueEnd, place };
  const end = Math.max(queueEnd, now) + TURN_EVERY_MS;
  const turn = end - TURNS_AT_ONCE * TURN_EVERY_MS;
  if (turn <= now) return { waitMs: 0, queueEnd: end, place: null };
  const waitMs = turn - now;
  return waitMs > QUEUE_MS_MAX ? { waitMs, queueEnd, place: null } : { waitMs, queueEnd: end, place: turn };
}
