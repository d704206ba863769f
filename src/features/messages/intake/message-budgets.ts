import { Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { LRUCache } from 'lru-cache';

import { Config } from '../../../kernel/config/config.ts';
import type { ExhaustedBudget } from '../../../kernel/context/caller.ts';
import type { ProblemError } from '../../../kernel/errors/problem-error.ts';
import type { StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { LogFollower } from '../../../eventsourcing/log/log-follower.ts';
import type { ConversationEvent } from '../conversations/conversations.events.ts';
import { BUDGET_WINDOW_MS, type Draws } from '../conversations/message-budget.rules.ts';
import { countedBytes } from '../conversations/tokenless-bytes.rules.ts';

/** The number of agents whose chats are remembered, and of callers that were refused. */
const AGENTS_MAX = 10_000;
const REFUSED_MAX = 10_000;
const MIB = 1_048_576;

/**
 * The part of the budgets that is not in the conversation of an agent's webhooks: the times of its latest chats, and the callers that were
 * refused. Chats are heard from the log, so that every replica knows those of the others, and a chat costs no statement for it.
 */
@Injectable()
export class MessageBudgets implements OnModuleInit, OnModuleDestroy {
  private readonly chats = new LRUCache<string, number[]>({ max: AGENTS_MAX, ttl: BUDGET_WINDOW_MS });
  /** Maps an agent and a caller to the time until which the caller is refused, by `performance.now()`. */
  private readonly refused = new LRUCache<string, number>({ max: REFUSED_MAX });
  /** The size of webhooks without a token that an agent's day has no room for, and the time until which that holds, by `performance.now()`. */
  private readonly spentDays = new LRUCache<string, { bytes: number; until: number }>({ max: REFUSED_MAX });
  private stopListening = () => {};

  constructor(
    private readonly config: Config,
    private readonly follower: LogFollower,
  ) {}

  onModuleInit(): void {
    this.stopListening = this.follower.listen({ onEvents: (events) => this.onEvents(events) });
  }

  onModuleDestroy(): void {
    this.stopListening();
  }

  /** Returns the budget that a webhook of the caller draws on. */
  drawsOf(agentId: string, caller: string): Draws {
    return { caller, limit: this.config.messageBudget, chats: this.chats.get(agentId) ?? [] };
  }

  /** Returns the budget that a webhook without the agent's token draws on, of which so many bytes count. */
  tokenlessDrawsOf(agentId: string, caller: string, bytes: number): Draws {
    return { ...this.drawsOf(agentId, caller), tokenless: { bytes, bytesPerDay: this.config.tokenlessMbPerDay * MIB } };
  }

  /** Returns the refusal of the caller that still holds, so that it costs neither a body nor a look at the log; null if there is none. */
  refusalOf(agentId: string, caller: string): ExhaustedBudget | null {
    const key = `${agentId} ${caller}`;
    const leftMs = (this.refused.get(key) ?? 0) - performance.now();
    if (leftMs > 0) return refusal('The agent takes no more messages of this caller for now.', leftMs);
    this.refused.delete(key);
    return null;
  }

  /** Returns a refusal while it is known that the agent's day has no room for a webhook without a token of that length; else null. */
  refusalOfDay(agentId: string, bodyBytes: number): ExhaustedBudget | null {
    const spent = this.spentDays.get(agentId);
    if (spent === undefined || countedBytes(bodyBytes, 0) < spent.bytes) return null;
    const leftMs = spent.until - performance.now();
    if (leftMs > 0) return refusal('The agent takes no more webhooks of that size without its token today.', leftMs);
    this.spentDays.delete(agentId);
    return null;
  }

  /**
   * Remembers a refusal for as long as the caller was told to wait. One that waits longer than the window is that of the agent's day, which holds for
   * all callers without a token whose webhooks are not smaller.
   */
  rememberRefusal(agentId: string, { caller, tokenless }: Draws, { code, facts: { retryAfterSeconds = 0 } }: ProblemError): void {
    if (code !== 'rate_limited') return;
    const waitMs = retryAfterSeconds * 1_000;
    const until = performance.now() + waitMs;
    if (waitMs <= BUDGET_WINDOW_MS) this.refused.set(`${agentId} ${caller}`, until);
    else if (tokenless !== undefined) {
      const known = this.spentDays.get(agentId);
      const isNarrower = known === undefined || known.until <= performance.now() || tokenless.bytes <= known.bytes;
      if (isNarrower) this.spentDays.set(agentId, { bytes: tokenless.bytes, until });
    }
  }

  private onEvents(events: readonly StoredEvent[]): void {
    for (const stored of events) {
      if (stored.type !== 'MessageAccepted') continue;
      const { draws } = (stored as unknown as Extract<ConversationEvent, { type: 'MessageAccepted' }>).data;
      if (draws === undefined || draws.caller !== undefined) continue;
      const times = [...(this.chats.get(draws.agent) ?? []), Date.parse(draws.at)];
      this.chats.set(draws.agent, times.slice(-this.config.messageBudget));
    }
  }
}

function refusal(detail: string, leftMs: number): ExhaustedBudget {
  return { detail, retryAfterSeconds: leftMs / 1_000 };
}
