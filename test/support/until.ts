import { setTimeout as sleep } from 'node:timers/promises';

/** The default timeout of a wait, in ms: long enough for a machine that is overloaded tenfold. */
const GIVE_UP_AFTER_MS = 90_000;

export interface Wait {
  /** The timeout of the wait, in ms. Only a test that claims a time, or waits for something slower, sets its own. */
  timeoutMs?: number;
  everyMs?: number;
}

/**
 * Calls `probe` until it returns something other than undefined, and returns that. After the timeout it throws an error that names the
 * condition.
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
    await sleep(everyMs);
  }
}

/** Waits until the condition returns true; an error that it throws counts as false. */
export async function untilTrue(condition: () => Promise<boolean> | boolean): Promise<void> {
  const holds = async () => ((await condition()) ? true : undefined);
  await until(String(condition), () => holds().catch(() => undefined));
}

/** Waits for a time (ms) over which something is measured; `until` waits for something to happen. */
export function span(ms: number): Promise<void> {
  return sleep(ms);
}
