/*
 * Reads the messages of conversations from their streams: pages for callers, the content of a waiting message, and the history for agents
 * that do not remember it.
 *
 * It keeps no state. It does not own the rules of conversations, or the keys of their texts (`Conversations`).
 *
 * Invariants:
 * T1. Streams are read backwards in small parts, so that the cost of a page does not depend on the length of the thread.
 * T2. A page has at most 1 MiB of texts, except that it always contains at least one message.
 * T3. A message is pending while it waits; otherwise its status is that of its latest outcome. If the outcome is on a later page, at most as
 *     many events are read for it as can be between the acceptance of a message and its outcome.
 * T4. The history contains only whole exchanges: messages that were answered, each with its reply.
 */

import { Injectable } from '@nestjs/common';

import type { Turn } from '../../../agent-protocol/protocol.ts';
import { EventStore, type StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { RETRY_DELAYS_MS, WAITING_MAX, type Conversation, type PendingMessage } from './conversations.decider.ts';
import { isOutcomeOf, type AcceptedData, type Channel, type ConversationEvent, type Outcome } from './conversations.events.ts';
import { Conversations, conversationStream } from './conversations.service.ts';
import { readContent, displayText, type MessageContent } from './message-content.ts';

/** The most bytes of text on one page of a thread, in UTF-8. A page contains at least one message. */
export const PAGE_BYTES_MAX = 1_048_576;
/**
 * The most exchanges, and the most bytes of their texts, in the history that is sent to agents whose protocol needs the thread with each
 * message.
 */
export const HISTORY_EXCHANGES_MAX = 50;
export const HISTORY_BYTES_MAX = 1_048_576;
/** The most events that are read for a history. */
const HISTORY_EVENTS_MAX = 500;
/**
 * The most events between the acceptance of a message and its outcome: its own attempts, those of all messages that wait with it, and as
 * many new messages.
 */
const EVENTS_TO_OUTCOME_MAX: Record<Channel, number> = {
  chat: toOutcome('chat'),
  attachment: toOutcome('attachment'),
  webhook: toOutcome('webhook'),
};
/** The number of events to read when one or two are probably enough. */
const FEW_EVENTS = 4;

function toOutcome(channel: Channel): number {
  return WAITING_MAX[channel].messages * (RETRY_DELAYS_MS[channel].length + 3);
}

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
  /** The next, older page ends before this revision; null if this page contains the first message. */
  olderBefore: number | null;
}

type Stored = Pick<StoredEvent, 'revision' | 'at'> & ConversationEvent;

/** The events that a thread does not show. */
const hiddenTypes = new Set<ConversationEvent['type']>([
  'ConversationStarted',
  'DeliveryFailed',
  'HandshakeAccepted',
  'MessagePartStored',
  'MessageRequeued',
]);

/** Reads the texts of conversations from their streams. The cost of reading does not depend on the length of the thread. */
@Injectable()
export class Threads {
  constructor(
    private readonly store: EventStore,
    private readonly conversations: Conversations,
  ) {}

  /** Returns the `limit` messages before the revision, or the latest ones if it is null; fewer if they exceed `PAGE_BYTES_MAX`. */
  async page(
    conversationId: string,
    { agentId, channel, pending }: Conversation,
    before: number | null,
    limit: number,
  ): Promise<ThreadPage> {
    const outcomes = new Map<string, ThreadMessage['status']>();
    const messages: ThreadMessage[] = [];
    let bytes = 0;
    let olderBefore: number | null = null;
    for await (const event of this.backwards(conversationId, before, limit + FEW_EVENTS)) {
      if (isHidden(event)) continue;
      const { message_id: id } = event.data;
      if (event.type === 'MessageDeadLettered') {
        if (!outcomes.has(id)) outcomes.set(id, 'dead_letter');
        continue;
      }
      const said = event.type === 'MessageAccepted' ? ('text' as const) : ('reply' as const);
      const text = event.type === 'MessageAccepted' ? await this.openText(agentId, event.data) : await this.reply(agentId, event.data);
      bytes += Buffer.byteLength(text ?? '');
      // T2
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
    for (const message of messages) if (message.role === 'user' && waiting.has(message.id)) message.status = 'pending';
    // T3
    if (before !== null) await this.completeStatuses(conversationId, before, EVENTS_TO_OUTCOME_MAX[channel], messages, waiting);
    return { messages, olderBefore };
  }

  /** Returns a waiting message, or null if the agent was deleted. */
  async contentOf(conversationId: string, agentId: string, { id, revision }: PendingMessage): Promise<MessageContent | null> {
    const accepted = await this.eventAt(conversationId, revision);
    if (accepted?.type !== 'MessageAccepted' || accepted.data.message_id !== id)
      throw new Error(`the message ${id} is not at revision ${revision} of conversation ${conversationId}`);
    const { channel, text, parts } = accepted.data;
    const texts = [await this.conversations.open(agentId, id, 'text', text)];
    for (const part of parts?.revisions ?? []) {
      const stored = await this.eventAt(conversationId, part);
      if (stored?.type !== 'MessagePartStored' || stored.data.message_id !== id)
        throw new Error(`a part of the message ${id} is not at revision ${part} of conversation ${conversationId}`);
      texts.push(await this.conversations.open(agentId, id, `part ${stored.data.part}`, stored.data.text));
    }
    const known = texts.filter((each) => each !== null);
    return known.length < texts.length ? null : readContent(channel, known);
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
        const text = await this.reply(agentId, event.data);
        bytes += Buffer.byteLength(text ?? '');
        replies.set(event.data.message_id, text);
      } else if (event.type === 'MessageAccepted' && replies.has(event.data.message_id)) {
        // T4
        const { message_id: id } = event.data;
        const text = await this.openText(agentId, event.data);
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
   * Returns the outcome of a chat message that may have been accepted recently: `pending` if it waits; null if the latest events do not
   * contain it.
   */
  async outcomeOf(conversationId: string, messageId: string): Promise<Outcome | 'pending' | null> {
    let seen = 0;
    for await (const event of this.backwards(conversationId, null, FEW_EVENTS)) {
      if ((seen += 1) > EVENTS_TO_OUTCOME_MAX.chat) return null;
      if (event.type === 'ConversationStarted' || event.type === 'HandshakeAccepted' || event.data.message_id !== messageId) continue;
      return isOutcomeOf(event, messageId) ? event : 'pending';
    }
    return null;
  }

  /** Returns an accepted message as its thread shows it, without the further parts of a long one; null if the agent was deleted. */
  private async openText(agentId: string, { message_id: id, channel, text }: AcceptedData): Promise<string | null> {
    const opened = await this.conversations.open(agentId, id, 'text', text);
    return opened === null ? null : displayText(readContent(channel, [opened]));
  }

  private reply(
    agentId: string,
    { message_id: id, reply }: Extract<Outcome, { type: 'MessageDelivered' }>['data'],
  ): Promise<string | null> {
    return this.conversations.open(agentId, id, 'reply', reply);
  }

  private async eventAt(conversationId: string, revision: number): Promise<Stored | null> {
    for await (const stored of this.store.readStream(conversationStream(conversationId), { from: revision, limit: 1 }))
      return stored as unknown as Stored;
    return null;
  }

  /** Sets the status of messages whose outcome is on a later page. */
  private async completeStatuses(
    conversationId: string,
    from: number,
    eventsMax: number,
    messages: ThreadMessage[],
    waiting: Set<string>,
  ): Promise<void> {
    const open = new Map(
      messages.filter(({ id, status }) => status === 'pending' && !waiting.has(id)).map((message) => [message.id, message]),
    );
    let next = from;
    for (let size = FEW_EVENTS; open.size > 0 && next < from + eventsMax; size *= 2) {
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

  /** Yields the events before the revision, latest first, and reads `size` of them at a time. */
  private async *backwards(conversationId: string, before: number | null, size: number): AsyncGenerator<Stored> {
    // T1
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

function isHidden(event: Stored): event is Exclude<Stored, { type: 'MessageAccepted' | Outcome['type'] }> {
  return hiddenTypes.has(event.type);
}
