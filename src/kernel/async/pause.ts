import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Waits for that time, or until the signal aborts. It never rejects, so a loop checks its signal afterwards. With `ref: false` the process
 * may end meanwhile.
 */
export async function pause(ms: number, signal?: AbortSignal, { ref = true }: { ref?: boolean } = {}): Promise<void> {
  await sleep(ms, undefined, { signal, ref }).catch(() => undefined);
}

/** Resolves when the signal aborts. The listener stays on the signal until then, so the signal must not outlive the work for long. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
