import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import type { DailyBytes } from './tokenless-bytes.rules.ts';

/** The time for which a message counts, in ms. */
export const BUDGET_WINDOW_MS = 60_000;
/** The largest number of webhooks of one agent in that time, of all callers together: of those with the agent's token, and of those without. */
export const DRAWS_MAX = 1_000;
export const TOKENLESS_DRAWS_MAX = 250;

/** A webhook or a handshake of the last minute. */
export interface Draw {
  caller: string;
  /** The time at which it was accepted, ms since 1970. */
  at: number;
}

/** The budget that a message draws on. */
export interface Draws {
  /** The caller of a webhook; null for a chat, which draws on the budget but is not refused by it. */
  caller: string | null;
  /** The most messages in a minute. */
  limit: number;
  /** The times of the agent's latest chats, ms since 1970, ascending; at least the last `limit` of them. */
  chats: readonly number[];
  /** The share that the webhook takes of the agent's day of webhooks without a token; absent for every other message. */
  tokenless?: DailyBytes;
}

/** Throws `rate_limited`, with the time to wait, if the caller's webhooks and the agent's chats of the last minute reach the limit. */
export function refuseBeyondBudget({ caller, limit, chats, tokenless }: Draws, drawn: readonly Draw[], now: Date): void {
  if (caller === null) return;
  const since = now.getTime() - BUDGET_WINDOW_MS;
  const ofCaller = drawn.filter((draw) => draw.caller === caller).map(({ at }) => at);
  const counted = [...ofCaller, ...chats].filter((at) => at > since).toSorted((a, b) => a - b);
  const blocking = counted.at(-limit);
  if (counted.length >= limit && blocking !== undefined)
    throw tooMany(`The agent takes ${limit} messages a minute of one caller, and its chats count too.`, blocking - since);
  const recent = drawn.filter(({ at }) => at > since);
  const [most, whose] = tokenless === undefined ? [DRAWS_MAX, 'with'] : [TOKENLESS_DRAWS_MAX, 'without'];
  const leaving = recent.at(-most);
  if (leaving !== undefined)
    throw tooMany(`The agent takes ${most} webhooks a minute of all callers ${whose} its token together.`, leaving.at - since);
}

function tooMany(detail: string, waitMs: number): ProblemError {
  return new ProblemError('rate_limited', detail, { retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1_000)) });
}

/** Returns the webhooks of the last minute after one more draw on the budgets; the array stays the same if that is no caller's. */
export function drawnInWindow(drawn: Draw[], draws: { caller?: string; at: string } | undefined): Draw[] {
  if (draws?.caller === undefined) return drawn;
  const at = Date.parse(draws.at);
  return [...drawn.filter((draw) => draw.at > at - BUDGET_WINDOW_MS), { caller: draws.caller, at }].slice(-DRAWS_MAX);
}
