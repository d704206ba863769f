import { LRUCache } from 'lru-cache';

import { pause } from '../../../kernel/async/pause.ts';

/** The number of unusable answers in a row after which an agent is asked less often. */
export const TOLERATED = 3;
/** The pause between two messages after that, in milliseconds; it doubles with each further unusable answer, up to the last. */
const FIRST_PAUSE_MS = 250;
const LAST_PAUSE_MS = 4_000;
/** The longest time ahead, in milliseconds, at which a message gets its turn that waits as long as it takes. */
const TURNS_AHEAD_MS = 60_000;
/** The number of agents with unusable answers that are remembered. */
const AGENTS_MAX = 10_000;

interface Broken {
  inARow: number;
  /** The time of the next free turn, by `performance.now()`. */
  nextAt: number;
  /** Aborts when the agent has given a usable answer. */
  recovered: AbortController;
}

/**
 * Gives the messages for an agent whose answers can't be used (no HTTP, no reply, a connection that breaks) turns with growing pauses. A
 * broken answer comes at once, and so does its caller again; without the pauses such a pair would keep the process busy all the time.
 */
export class BrokenAnswers {
  private readonly agents = new LRUCache<string, Broken>({ max: AGENTS_MAX });

  /** Notes that an answer of the agent could not be used. */
  unusable(agentId: string): void {
    const broken = this.agents.get(agentId) ?? { inARow: 0, nextAt: 0, recovered: new AbortController() };
    broken.inARow += 1;
    if (broken.inARow >= TOLERATED) broken.nextAt = Math.max(broken.nextAt, performance.now() + pauseAfter(broken.inARow));
    this.agents.set(agentId, broken);
  }

  /** Notes a usable answer, after which the agent's messages wait no more. */
  usable(agentId: string): void {
    this.agents.get(agentId)?.recovered.abort();
    this.agents.delete(agentId);
  }

  /** Resolves when a message for the agent may be handed over. `replyBy` (ISO 8601) is the time until which its sender waits. Rejects with the signal's reason. */
  async turn(agentId: string, replyBy: string | null, signal: AbortSignal): Promise<void> {
    const broken = this.agents.get(agentId);
    if (broken === undefined || broken.inARow < TOLERATED) return;
    const withinMs = replyBy === null ? TURNS_AHEAD_MS : Date.parse(replyBy) - Date.now();
    const ms = waitMs(broken, withinMs);
    if (ms > 0) await pause(ms, AbortSignal.any([signal, broken.recovered.signal]));
    signal.throwIfAborted();
  }
}

/** Returns the wait until the next free turn, and takes that turn. One that comes later than `withinMs` is left to others, but waited for as long. */
function waitMs(broken: Broken, withinMs: number): number {
  const now = performance.now();
  const at = Math.max(now, broken.nextAt);
  if (at - now >= withinMs) return withinMs;
  broken.nextAt = at + pauseAfter(broken.inARow);
  return at - now;
}

function pauseAfter(inARow: number): number {
  return Math.min(FIRST_PAUSE_MS * 2 ** (inARow - TOLERATED), LAST_PAUSE_MS);
}
