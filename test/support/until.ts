import { setTimeout as after } from 'node:timers/promises';

/** A wait that is this long over is given up: long enough for a machine with ten times the work it can do. */
const GIVE_UP_AFTER_MS = 90_000;

/** Looks until `probe` answers something other than undefined, and gives that; a time-out (ms) fails with what was waited for. */
export async function until<T>(
  what: string,
  probe: () => Promise<T | undefined> | T | undefined,
  timeoutMs = GIVE_UP_AFTER_MS,
  everyMs = 25,
): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const answer = await probe();
    if (answer !== undefined) return answer;
    if (performance.now() > deadline) throw new Error(`waited ${timeoutMs} ms in vain: ${what}`);
    await after(everyMs);
  }
}

/** Looks until the condition holds; one that throws does not hold yet. */
export async function untilTrue(condition: () => Promise<boolean> | boolean, timeoutMs = GIVE_UP_AFTER_MS): Promise<void> {
  const holds = async () => ((await condition()) ? true : undefined);
  await until(String(condition), () => holds().catch(() => undefined), timeoutMs);
}

/** A span of time (ms) over which something is measured; to wait for something to happen there is `until`. */
export function span(ms: number): Promise<void> {
  return after(ms);
}
