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

/** Looks until the condition holds; one that throws does not hold yet. */
export async function untilTrue(condition: () => Promise<boolean> | boolean, timeoutMs = 10_000): Promise<void> {
  const holds = async () => ((await condition()) ? true : undefined);
  await until(String(condition), () => holds().catch(() => undefined), timeoutMs);
}

/** A span of time (ms) over which something is measured; to wait for something to happen there is `until`. */
export function span(ms: number): Promise<void> {
  return after(ms);
}
