import type { Decider } from '../platform/event-store/event-definition.ts';
import type { Sealed } from '../platform/crypto/sealed.ts';
import { Refusal } from '../platform/refusal.ts';
import type { Channel, ConversationEvent, DeadLetterCode } from './conversation.events.ts';

/** Messages that may wait in one conversation. */
export const PENDING_MAX = 100;
/** Longest text, bytes of UTF-8: sealed and in base64 it still fits an event. */
export const TEXT_BYTES_MAX = 700_000;
/** Exchanges kept for agents whose protocol wants the thread told anew with each message. */
export const HISTORY_MAX = 50;
/** Waits (ms) before the attempts that follow a failed one; after the last the message is given up. */
export const RETRY_DELAYS_MS: readonly number[] = [250, 1_000, 5_000];

export interface PendingMessage {
  id: string;
  channel: Channel;
  text: Sealed;
  /** Failed attempts so far. */
  attempts: number;
  /** The earliest next attempt; null: now. */
  retryAt: string | null;
}

export interface Exchange {
  messageId: string;
  text: Sealed;
  reply: Sealed;
}

export interface Conversation {
  agentId: string;
  accountId: string;
  channel: Channel;
  /** In the order in which they are delivered: the next one waits for the one before. */
  pending: PendingMessage[];
  /** The latest, oldest first. */
  exchanges: Exchange[];
}

export type ConversationState = Conversation | null;

export type ConversationCommand =
  | {
      type: 'AcceptMessage';
      agentId: string;
      accountId: string;
      messageId: string;
      channel: Channel;
      text: Sealed;
      /** Whether this message may begin the conversation. */
      begins: boolean;
    }
  | { type: 'RecordReply'; messageId: string; reply: Sealed }
  /** No answer came, and another attempt may get one. */
  | { type: 'RecordFailedAttempt'; messageId: string; reason: string }
  | { type: 'RecordDeadLetter'; messageId: string; code: DeadLetterCode; reason: string };

function decide(command: ConversationCommand, conversation: ConversationState, now: Date): ConversationEvent[] {
  if (command.type === 'AcceptMessage') return accept(command, conversation);
  const message = conversation?.pending.find(({ id }) => id === command.messageId);
  if (message === undefined) return [];
  const message_id = message.id;
  switch (command.type) {
    case 'RecordReply':
      return [{ type: 'MessageDelivered', data: { message_id, reply: command.reply } }];
    case 'RecordDeadLetter':
      return [{ type: 'MessageDeadLettered', data: { message_id, code: command.code, reason: command.reason } }];
    case 'RecordFailedAttempt': {
      const delayMs = RETRY_DELAYS_MS[message.attempts];
      const { reason } = command;
      if (delayMs === undefined) return [{ type: 'MessageDeadLettered', data: { message_id, code: 'agent_unavailable', reason } }];
      const retry_at = new Date(now.getTime() + delayMs).toISOString();
      return [{ type: 'DeliveryFailed', data: { message_id, attempt: message.attempts + 1, reason, retry_at } }];
    }
  }
}

function accept(command: Extract<ConversationCommand, { type: 'AcceptMessage' }>, conversation: ConversationState): ConversationEvent[] {
  const { agentId, accountId, messageId, channel, text } = command;
  const stranger = conversation !== null && (conversation.agentId !== agentId || conversation.accountId !== accountId);
  if (stranger || (conversation === null && !command.begins))
    throw new Refusal('conversation_not_found', 'The agent has no such conversation.');
  if (conversation !== null && conversation.pending.some(({ id }) => id === messageId)) return [];
  if (conversation !== null && conversation.pending.length >= PENDING_MAX)
    throw new Refusal('rate_limited', `${PENDING_MAX} messages of this conversation wait for the agent already.`, { retryAfterSeconds: 5 });
  const accepted: ConversationEvent = { type: 'MessageAccepted', data: { message_id: messageId, channel, text } };
  if (conversation !== null) return [accepted];
  return [{ type: 'ConversationStarted', data: { agent_id: agentId, account_id: accountId, channel } }, accepted];
}

function evolve(conversation: ConversationState, event: ConversationEvent): ConversationState {
  if (event.type === 'ConversationStarted') {
    const { agent_id: agentId, account_id: accountId, channel } = event.data;
    return { agentId, accountId, channel, pending: [], exchanges: [] };
  }
  if (conversation === null) return conversation;
  const { message_id: id } = event.data;
  const others = conversation.pending.filter((message) => message.id !== id);
  switch (event.type) {
    case 'MessageAccepted': {
      const { channel, text } = event.data;
      return { ...conversation, pending: [...conversation.pending, { id, channel, text, attempts: 0, retryAt: null }] };
    }
    case 'DeliveryFailed': {
      const { attempt: attempts, retry_at: retryAt } = event.data;
      const pending = conversation.pending.map((message) => (message.id === id ? { ...message, attempts, retryAt } : message));
      return { ...conversation, pending };
    }
    case 'MessageDelivered': {
      const message = conversation.pending.find((pending) => pending.id === id);
      if (message === undefined) return conversation;
      const exchange = { messageId: id, text: message.text, reply: event.data.reply };
      return { ...conversation, pending: others, exchanges: [...conversation.exchanges, exchange].slice(-HISTORY_MAX) };
    }
    case 'MessageDeadLettered':
      return { ...conversation, pending: others };
    default:
      return conversation;
  }
}

export const conversationDecider: Decider<ConversationState, ConversationCommand, ConversationEvent> = {
  initialState: () => null,
  decide,
  evolve,
  snapshot: { name: 'conversation', version: 1, subject: (conversation) => conversation?.agentId ?? null },
};

/** Where a sealed text stands: it opens nowhere else. */
export function textContext(messageId: string, part: 'text' | 'reply'): string {
  return `message ${messageId} ${part}`;
}
