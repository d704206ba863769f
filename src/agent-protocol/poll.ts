import { pause } from '../kernel/async/pause.ts';
import { ReplyTimeout, type Exchange } from './protocol.ts';
import { pollIntervalMs } from './readiness.ts';

/**
 * Calls `ask` until its result is not null, and returns it. The delays grow from 5 ms to 2 s. `ask` gets the remaining time of the
 * exchange, in ms. Throws `ReplyTimeout` after that time.
 */
export async function poll<Answer>({ timeoutMs, signal }: Exchange, ask: (leftMs: number) => Promise<Answer | null>): Promise<Answer> {
  const begun = performance.now();
  for (;;) {
    const elapsed = performance.now() - begun;
    if (elapsed >= timeoutMs) throw new ReplyTimeout(timeoutMs);
    const answer = await ask(timeoutMs - elapsed);
    if (answer !== null) return answer;
    await pause(pollIntervalMs(elapsed), signal);
    signal.throwIfAborted();
  }
}
