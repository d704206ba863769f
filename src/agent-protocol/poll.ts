import { pause } from '../kernel/async/pause.ts';
import { ReplyTimeout, type Exchange } from './protocol.ts';
import { pollIntervalMs } from './readiness.ts';

/**
 * Asks again until there is an answer other than null, and returns it. The waits grow from 5 ms to two seconds. `ask` is told the rest of
 * the exchange's time, ms. Throws `ReplyTimeout` if there is no answer within it.
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
