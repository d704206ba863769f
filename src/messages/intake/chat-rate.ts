import { Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';

import { Config } from '../../platform/config/config.ts';
import type { StoredEvent } from '../../platform/event-store/event-store.ts';
import { LogFollower } from '../../platform/event-store/following/log-follower.ts';
import { Refusal } from '../../platform/errors/refusal.ts';
import type { ConversationEvent } from '../conversations/conversations.events.ts';

const WINDOW_MS = 60_000;

/**
 * Limits the chat messages that an account may send in a minute. Every replica counts the messages that it accepts, and those of the other
 * replicas when they arrive from the log. So the limit holds across replicas, except for messages in flight, and costs no statement.
 */
@Injectable()
export class ChatRate implements OnModuleInit, OnModuleDestroy {
  private endsAt = 0;
  /** Maps an account to its number of messages in the current window. */
  private readonly taken = new Map<string, number>();
  /** Messages that were counted here and have not arrived from the log yet. */
  private readonly own = new Set<string>();
  private stopListening = () => {};

  constructor(
    private readonly config: Config,
    private readonly follower: LogFollower,
  ) {}

  onModuleInit(): void {
    this.stopListening = this.follower.listen({ onEvents: (events) => this.onEvents(events), onGap: () => this.own.clear() });
  }

  onModuleDestroy(): void {
    this.stopListening();
  }

  /** Counts a message. Returns a function that reverts this if the message is refused after all. Throws `rate_limited`. */
  take(accountId: string, messageId: string): () => void {
    const count = this.countOf(accountId);
    if (count >= this.config.chatsPerMinute)
      throw new Refusal('rate_limited', `An account may send ${this.config.chatsPerMinute} messages a minute.`, {
        retryAfterSeconds: Math.max(1, Math.ceil((this.endsAt - performance.now()) / 1_000)),
      });
    this.taken.set(accountId, count + 1);
    this.own.add(messageId);
    return () => {
      if (this.own.delete(messageId)) this.taken.set(accountId, Math.max(0, this.countOf(accountId) - 1));
    };
  }

  private onEvents(events: readonly StoredEvent[]): void {
    for (const stored of events) {
      if (stored.type !== 'MessageAccepted') continue;
      const event = stored as unknown as Extract<ConversationEvent, { type: 'MessageAccepted' }>;
      const { account_id: accountId } = stored.metadata;
      if (event.data.channel !== 'chat' || accountId === null || this.own.delete(event.data.message_id)) continue;
      this.taken.set(accountId, this.countOf(accountId) + 1);
    }
  }

  private countOf(accountId: string): number {
    const now = performance.now();
    if (now >= this.endsAt) {
      this.taken.clear();
      this.endsAt = now + WINDOW_MS;
    }
    return this.taken.get(accountId) ?? 0;
  }
}
