import { setTimeout as after } from 'node:timers/promises';

/** Looks until `probe` answers something other than undefined, and gives that; a time-out (ms) fails with what was waited for. */
export async function until<T>(
  what: string,
  probe: () => Promise<T | undefined> | T | undefined,
  timeoutMs = 10_000,
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
