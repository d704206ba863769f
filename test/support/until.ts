import { setTimeout as after } from 'node:timers/promises';

/** The default timeout of a wait, in ms: long enough for a machine with ten times the work that it can do. */
const GIVE_UP_AFTER_MS = 90_000;

export interface Wait {
  /** The time after which the wait is given up, in ms. Only a test that claims a time, or waits for something slower, has its own. */
  timeoutMs?: number;
  everyMs?: number;
}

/**
 * Calls `probe` until it returns something other than undefined, and returns that. Throws an error that names the awaited condition after
 * the timeout.
 */
export async function until<T>(
  what: string,
  probe: () => Promise<T | undefined> | T | undefined,
  { timeoutMs = GIVE_UP_AFTER_MS, everyMs = 25 }: Wait = {},
): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const answer = await probe();
    if (answer !== undefined) return answer;
    if (performance.now() > deadline) throw new Error(`waited ${timeoutMs} ms in vain: ${what}`);
    await after(everyMs);
  }
}

/** Waits until the condition returns true; an error that it throws counts as false. */
export async function untilTrue(condition: () => Promise<boolean> | boolean): Promise<void> {
  const holds = async () => ((await condition()) ? true : undefined);
  await until(String(condition), () => holds().catch(() => undefined));
}

/** Waits for a time (ms) over which something is measured; `until` waits for something to happen. */
export function span(ms: number): Promise<void> {
  return after(ms);
}
