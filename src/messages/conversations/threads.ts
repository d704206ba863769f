import { Injectable } from '@nestjs/common';

import type { Turn } from '../../platform/agent-protocol/agent-protocol.ts';
import { EventStore, type StoredEvent } from '../../platform/event-store/event-store.ts';
import { PENDING_MAX, RETRY_DELAYS_MS, type Conversation, type PendingMessage } from './conversations.decider.ts';
import { isOutcomeOf, type ConversationEvent, type Outcome } from './conversations.events.ts';
import { Conversations, conversationStream } from './conversations.service.ts';

/** The largest size of the texts on one page of a thread, in bytes of UTF-8. A page holds at least one message. */
export const PAGE_BYTES_MAX = 1_048_576;
/**
 * The largest number of exchanges, and of bytes of their texts, in the history for agents whose protocol needs the thread with each
 * message.
 */
export const HISTORY_EXCHANGES_MAX = 50;
export const HISTORY_BYTES_MAX = 1_048_576;
/** The largest number of events that are read for a history. */
const HISTORY_EVENTS_MAX = 500;
/**
 * The largest number of events between a message and its end: its own attempts, those of all messages that wait with it, and as many new
 * messages.
 */
const EVENTS_TO_OUTCOME_MAX = PENDING_MAX * (RETRY_DELAYS_MS.length + 3);
/** The number of events in one read when one or two are expected to be enough. */
const FEW_EVENTS = 4;

export interface ThreadMessage {
  id: string;
  role: 'user' | 'agent';
  text: string;
  status: 'pending' | 'delivered' | 'dead_letter';
  at: string;
}

export interface ThreadPage {
  /** The messages, oldest first. */
  messages: ThreadMessage[];
  /** The revision that the next, older page ends before; null if this page holds the first message. */
  olderBefore: number | null;
}

type Stored = Pick<StoredEvent, 'revision' | 'at'> & ConversationEvent;

/** Reads the texts of conversations from their streams. The cost of a read does not depend on the length of the thread. */
@Injectable()
export class Threads {
  constructor(
    private readonly store: EventStore,
    private readonly conversations: Conversations,
  ) {}

  /** Returns the `limit` messages before the revision, or the latest if it is null; fewer if they exceed `PAGE_BYTES_MAX` together. */
  async page(conversationId: string, { agentId, pending }: Conversation, before: number | null, limit: number): Promise<ThreadPage> {
    const outcomes = new Map<string, ThreadMessage['status']>();
    const messages: ThreadMessage[] = [];
    let bytes = 0;
    let olderBefore: number | null = null;
    for await (const event of this.backwards(conversationId, before, limit + FEW_EVENTS)) {
      if (event.type === 'ConversationStarted' || event.type === 'DeliveryFailed') continue;
      const { message_id: id } = event.data;
      if (event.type === 'MessageDeadLettered') {
        outcomes.set(id, 'dead_letter');
        continue;
      }
      const said = event.type === 'MessageAccepted' ? ('text' as const) : ('reply' as const);
      const text = await this.conversations.open(agentId, id, said, event.type === 'MessageAccepted' ? event.data.text : event.data.reply);
      bytes += Buffer.byteLength(text ?? '');
      if (messages.length === limit || (messages.length > 0 && bytes > PAGE_BYTES_MAX)) {
        olderBefore = event.revision + 1;
        break;
      }
      if (said === 'reply') outcomes.set(id, 'delivered');
      messages.unshift({
        id,
        role: said === 'reply' ? 'agent' : 'user',
        text: text ?? '',
        status: outcomes.get(id) ?? 'pending',
        at: event.at,
      });
    }
    const waiting = new Set(pending.map(({ id }) => id));
    if (before !== null) await this.settle(conversationId, before, messages, waiting);
    return { messages, olderBefore };
  }

  /** Returns the text of a waiting message, or null if the agent was deleted. */
  async textOf(conversationId: string, agentId: string, message: PendingMessage): Promise<string | null> {
    for await (const stored of this.store.readStream(conversationStream(conversationId), { from: message.revision, limit: 1 })) {
      const event = stored as unknown as Stored;
      if (event.type === 'MessageAccepted' && event.data.message_id === message.id)
        return this.conversations.open(agentId, message.id, 'text', event.data.text);
    }
    throw new Error(`the message ${message.id} is not at revision ${message.revision} of conversation ${conversationId}`);
  }

  /** Returns the latest exchanges that ended with a reply, oldest first; at most `HISTORY_EXCHANGES_MAX`, and `HISTORY_BYTES_MAX` bytes. */
  async history(conversationId: string, agentId: string): Promise<Turn[]> {
    const replies = new Map<string, string | null>();
    const turns: Turn[] = [];
    let seen = 0;
    let bytes = 0;
    for await (const event of this.backwards(conversationId, null, HISTORY_EXCHANGES_MAX)) {
      if ((seen += 1) > HISTORY_EVENTS_MAX || turns.length >= 2 * HISTORY_EXCHANGES_MAX) break;
      if (event.type === 'MessageDelivered') {
        const { message_id: id, reply } = event.data;
        const text = await this.conversations.open(agentId, id, 'reply', reply);
        bytes += Buffer.byteLength(text ?? '');
        replies.set(id, text);
      } else if (event.type === 'MessageAccepted' && replies.has(event.data.message_id)) {
        const { message_id: id } = event.data;
        const text = await this.conversations.open(agentId, id, 'text', event.data.text);
        bytes += Buffer.byteLength(text ?? '');
        const reply = replies.get(id) ?? null;
        if (bytes <= HISTORY_BYTES_MAX && text !== null && reply !== null)
          turns.unshift({ role: 'user', text }, { role: 'assistant', text: reply });
      }
      if (bytes > HISTORY_BYTES_MAX) break;
    }
    return turns;
  }

  /**
   * Returns the outcome of a message that may have been accepted recently: `pending` if it waits, null if the latest events do not contain
   * it.
   */
  async outcomeOf(conversationId: string, messageId: string): Promise<Outcome | 'pending' | null> {
    let seen = 0;
    for await (const event of this.backwards(conversationId, null, FEW_EVENTS)) {
      if ((seen += 1) > EVENTS_TO_OUTCOME_MAX) return null;
      if (event.type === 'ConversationStarted' || event.data.message_id !== messageId) continue;
      return isOutcomeOf(event, messageId) ? event : 'pending';
    }
    return null;
  }

  /** Sets the status of messages whose outcome is on a later page. */
  private async settle(conversationId: string, from: number, messages: ThreadMessage[], waiting: Set<string>): Promise<void> {
    const open = new Map(
      messages.filter(({ id, status }) => status === 'pending' && !waiting.has(id)).map((message) => [message.id, message]),
    );
    let next = from;
    for (let size = FEW_EVENTS; open.size > 0 && next < from + EVENTS_TO_OUTCOME_MAX; size *= 2) {
      const first = next;
      for await (const stored of this.store.readStream(conversationStream(conversationId), { from: next, limit: size })) {
        const event = stored as unknown as Stored;
        next = event.revision + 1;
        if (event.type !== 'MessageDelivered' && event.type !== 'MessageDeadLettered') continue;
        const message = open.get(event.data.message_id);
        if (message !== undefined) message.status = event.type === 'MessageDelivered' ? 'delivered' : 'dead_letter';
        open.delete(event.data.message_id);
        if (open.size === 0) break;
      }
      if (next === first) return;
    }
  }

  /** Yields the events before the revision, the latest first, and reads `size` of them at a time. */
  private async *backwards(conversationId: string, before: number | null, size: number): AsyncGenerator<Stored> {
    for (let from = before === null ? undefined : before - 1; from === undefined || from >= 0;) {
      let last: number | null = null;
      for await (const stored of this.store.readStream(conversationStream(conversationId), { from, limit: size, backwards: true })) {
        last = stored.revision;
        yield stored as unknown as Stored;
      }
      if (last === null) return;
      from = last - 1;
    }
  }
}
