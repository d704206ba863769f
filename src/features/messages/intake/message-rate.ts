import { Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';

import { Config } from '../../../kernel/config/config.ts';
import type { StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { LogFollower } from '../../../eventsourcing/log/log-follower.ts';
import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import type { ConversationEvent } from '../conversations/conversations.events.ts';

const WINDOW_MS = 60_000;

/**
 * The channels whose messages are counted, each by itself, so that webhooks do not take the place of chats, nor those that anybody sends
 * without a token the place of the others.
 */
type CountedChannel = 'chat' | 'webhook' | 'tokenless';
/** The part of an account's webhooks in a minute that may come without a token besides. */
const TOKENLESS_PART = 1 / 4;

/**
 * Limits the chats, and likewise the webhooks, of an account in a minute; those without a token to a part of that. Every replica counts the
 * messages that it accepts, and those of the other replicas when they arrive from the log. So the limit holds across replicas, except for
 * messages in flight, and costs no statement.
 */
@Injectable()
export class MessageRate implements OnModuleInit, OnModuleDestroy {
  private endsAt = 0;
  /** Maps an account and a channel to their number of messages in the current window. */
  private readonly counts = new Map<string, number>();
  /** Messages that were counted here and have not arrived from the log yet. */
  private readonly countedHere = new Set<string>();
  private stopListening = () => {};

  constructor(
    private readonly config: Config,
    private readonly follower: LogFollower,
  ) {}

  onModuleInit(): void {
    this.stopListening = this.follower.listen({ onEvents: (events) => this.onEvents(events), onGap: () => this.countedHere.clear() });
  }

  onModuleDestroy(): void {
    this.stopListening();
  }

  /** Counts a message. Returns a function that reverts this if the message is refused after all. Throws `rate_limited`. */
  consume(accountId: string, channel: CountedChannel, messageId: string): () => void {
    const key = keyOf(accountId, channel);
    const count = this.countOf(key);
    const most = channel === 'tokenless' ? Math.ceil(this.config.chatsPerMinute * TOKENLESS_PART) : this.config.chatsPerMinute;
    if (count >= most)
      throw new ProblemError('rate_limited', `An account may send ${most} messages a minute.`, {
        retryAfterSeconds: Math.max(1, Math.ceil((this.endsAt - performance.now()) / 1_000)),
      });
    this.counts.set(key, count + 1);
    this.countedHere.add(messageId);
    return () => {
      if (this.countedHere.delete(messageId)) this.counts.set(key, Math.max(0, this.countOf(key) - 1));
    };
  }

  private onEvents(events: readonly StoredEvent[]): void {
    for (const stored of events) {
      const { account_id: accountId } = stored.metadata;
      const counted = countedIn(stored);
      if (counted === null || accountId === null || this.countedHere.delete(counted.id)) continue;
      const key = keyOf(accountId, counted.channel);
      this.counts.set(key, this.countOf(key) + 1);
    }
  }

  private countOf(key: string): number {
    const now = performance.now();
    if (now >= this.endsAt) {
      this.counts.clear();
      this.endsAt = now + WINDOW_MS;
    }
    return this.counts.get(key) ?? 0;
  }
}

/** Returns the channel in which an event counts, and the id by which it was counted here; null if it does not count. */
function countedIn(stored: StoredEvent): { channel: CountedChannel; id: string } | null {
  const event = stored as unknown as ConversationEvent;
  // A handshake has no message, so that it is known by its request.
  if (event.type === 'HandshakeAccepted') return { channel: 'webhook', id: stored.metadata.request_id ?? stored.id };
  if (event.type !== 'MessageAccepted') return null;
  const { channel, message_id: id, draws } = event.data;
  if (channel === 'attachment') return null;
  return { channel: draws?.tokenless === true ? 'tokenless' : channel, id };
}

function keyOf(accountId: string, channel: CountedChannel): string {
  return `${channel} ${accountId}`;
}
