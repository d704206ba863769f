import { LRUCache } from 'lru-cache';

import { pause } from '../../../kernel/async/pause.ts';

/** After this many consecutive unusable answers, an agent gets its messages less often. */
export const TOLERATED_FAILURES = 3;
/** The first pause between two messages after that, in ms. It doubles with each further unusable answer, up to the last. */
const FIRST_PAUSE_MS = 250;
const LAST_PAUSE_MS = 4_000;
/** The latest turn of a message that waits indefinitely, in ms from now. */
const SCHEDULE_AHEAD_MS_MAX = 60_000;
/** The number of agents with unusable answers that are remembered. */
const AGENTS_MAX = 10_000;

interface FailingAgent {
  inARow: number;
  /** The time of the next free turn, by `performance.now()`. */
  nextAt: number;
  /** Aborts when the agent has given a usable answer. */
  recovered: AbortController;
}

/**
 * Delays the messages for an agent whose answers can't be used (not HTTP, no reply, a broken connection), with growing pauses. Such an
 * answer arrives immediately, and its caller may retry immediately; without pauses, such a pair would keep the process busy.
 */
export class FailingAgentBackoff {
  private readonly agents = new LRUCache<string, FailingAgent>({ max: AGENTS_MAX });

  /** Records that an answer of the agent could not be used. */
  recordFailure(agentId: string): void {
    const broken = this.agents.get(agentId) ?? { inARow: 0, nextAt: 0, recovered: new AbortController() };
    broken.inARow += 1;
    if (broken.inARow >= TOLERATED_FAILURES) broken.nextAt = Math.max(broken.nextAt, performance.now() + pauseAfter(broken.inARow));
    this.agents.set(agentId, broken);
  }

  /** Records a usable answer, after which the agent's messages are not delayed any more. */
  recordSuccess(agentId: string): void {
    this.agents.get(agentId)?.recovered.abort();
    this.agents.delete(agentId);
  }

  /**
   * Resolves when a message for the agent may be sent. `replyBy` (ISO 8601) is the time until which its sender waits. Rejects with the
   * signal's reason.
   */
  async waitForTurn(agentId: string, replyBy: string | null, signal: AbortSignal): Promise<void> {
    const broken = this.agents.get(agentId);
    if (broken === undefined || broken.inARow < TOLERATED_FAILURES) return;
    const withinMs = replyBy === null ? SCHEDULE_AHEAD_MS_MAX : Date.parse(replyBy) - Date.now();
    const ms = waitMs(broken, withinMs);
    if (ms > 0) await pause(ms, AbortSignal.any([signal, broken.recovered.signal]));
    signal.throwIfAborted();
  }
}

/**
 * Returns the wait until the next free turn, and reserves that turn. A turn later than `withinMs` is not reserved; then `withinMs` is
 * returned.
 */
function waitMs(broken: FailingAgent, withinMs: number): number {
  const now = performance.now();
  const at = Math.max(now, broken.nextAt);
  if (at - now >= withinMs) return withinMs;
  broken.nextAt = at + pauseAfter(broken.inARow);
  return at - now;
}

function pauseAfter(inARow: number): number {
  return Math.min(FIRST_PAUSE_MS * 2 ** (inARow - TOLERATED_FAILURES), LAST_PAUSE_MS);
}
