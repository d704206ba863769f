export const RESYNC_EVERY_MS = 30_000;
/** The pause after a resync is this many times its duration: with ten thousand containers, listing all of them takes seconds. */
const RESTS = 240;
const PAUSE_MS_MAX = 300_000;

/** Returns the pause after a resync of all sagas that took that long, in ms: 240 times as long, but at least 30 s and at most 5 minutes. */
export function pauseAfter(tookMs: number): number {
  return Math.min(Math.max(RESYNC_EVERY_MS, tookMs * RESTS), PAUSE_MS_MAX);
}
