import type { Decider } from '../../platform/event-store/event-definition.ts';
import type { Sealed } from '../../platform/crypto/keyring.ts';
import { Refusal } from '../../platform/errors/refusal.ts';
import type { AcceptedData, Channel, ConversationEvent, DeadLetterCode } from './conversations.events.ts';

/** The largest number of messages that may wait in one conversation, and of bytes that they may have together as stored. */
export const PENDING_MAX = 100;
export const PENDING_BYTES_MAX = 8 * 1024 * 1024;
/** The longest text, in bytes of UTF-8: encrypted and in base64 it still fits into an event. */
export const TEXT_BYTES_MAX = 700_000;
/** The waits in milliseconds before the attempts that follow a failed one. When the last one fails, the message is given up. */
export const RETRY_DELAYS_MS: readonly number[] = [250, 1_000, 5_000];

/** A message that waits for its delivery. Its text stays in the stream, at its revision, and is read at delivery. */
export interface PendingMessage {
  id: string;
  channel: Channel;
  /** The revision of the event that accepted the message. */
  revision: number;
  /** The size of the text as stored, in bytes. */
  bytes: number;
  /** The time (ISO 8601) until which the sender waits for the reply; from then on the message is not delivered. Null if nobody waits. */
  replyBy: string | null;
  /** The number of failed attempts so far. */
  attempts: number;
  /** The time (ISO 8601) of the earliest next attempt; null means now. */
  retryAt: string | null;
}

/** A conversation, with ids, revisions and sizes, but no text: its memory does not depend on the length of the texts. */
export interface Conversation {
  agentId: string;
  accountId: string;
  channel: Channel;
  /** The revision of the last event that was folded in. */
  revision: number;
  /** The waiting messages in the order of delivery: each waits for the one before. */
  pending: PendingMessage[];
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
      /** The time (ISO 8601) until which the sender waits for the reply; null if nobody waits. */
      replyBy: string | null;
      /** True if this message may begin the conversation. */
      begins: boolean;
    }
  | { type: 'RecordReply'; messageId: string; reply: Sealed }
  /** There was no answer, and another attempt may get one. The sender is told `code` if this attempt was the last. */
  | { type: 'RecordFailedAttempt'; messageId: string; code: DeadLetterCode; reason: string }
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
      const { code, reason } = command;
      if (delayMs === undefined) return [{ type: 'MessageDeadLettered', data: { message_id, code, reason } }];
      const retry_at = new Date(now.getTime() + delayMs).toISOString();
      return [{ type: 'DeliveryFailed', data: { message_id, attempt: message.attempts + 1, reason, retry_at } }];
    }
  }
}

function accept(command: Extract<ConversationCommand, { type: 'AcceptMessage' }>, conversation: ConversationState): ConversationEvent[] {
  const { agentId, accountId, messageId, channel, text, replyBy } = command;
  const stranger = conversation !== null && (conversation.agentId !== agentId || conversation.accountId !== accountId);
  if (stranger || (conversation === null && !command.begins))
    throw new Refusal('conversation_not_found', 'The agent has no such conversation.');
  if (conversation?.pending.some(({ id }) => id === messageId)) return [];
  refuseBeyondBounds(conversation?.pending ?? [], storedBytes(text));
  const data = { message_id: messageId, channel, text, ...(replyBy === null ? {} : { reply_by: replyBy }) };
  const accepted: ConversationEvent = { type: 'MessageAccepted', data };
  if (conversation !== null) return [accepted];
  return [{ type: 'ConversationStarted', data: { agent_id: agentId, account_id: accountId, channel } }, accepted];
}

function refuseBeyondBounds(pending: PendingMessage[], bytes: number): void {
  const facts = { retryAfterSeconds: 5 };
  if (pending.length >= PENDING_MAX)
    throw new Refusal('rate_limited', `${PENDING_MAX} messages of this conversation wait for the agent already.`, facts);
  if (pending.reduce((sum, message) => sum + message.bytes, bytes) > PENDING_BYTES_MAX)
    throw new Refusal('rate_limited', 'The messages of this conversation that wait for the agent are too long together.', facts);
}

/** Returns the size of an encrypted text as stored, in bytes. Only its base64 grows with the text. */
function storedBytes(text: Sealed): number {
  return text.ct.length;
}

function evolve(before: ConversationState, event: ConversationEvent): ConversationState {
  if (event.type === 'ConversationStarted') {
    const { agent_id: agentId, account_id: accountId, channel } = event.data;
    return { agentId, accountId, channel, revision: 0, pending: [] };
  }
  if (before === null) return before;
  const conversation = { ...before, revision: before.revision + 1 };
  switch (event.type) {
    case 'MessageAccepted':
      return { ...conversation, pending: [...conversation.pending, pendingOf(event.data, conversation.revision)] };
    case 'DeliveryFailed': {
      const { message_id: id, attempt: attempts, retry_at: retryAt } = event.data;
      const pending = conversation.pending.map((message) => (message.id === id ? { ...message, attempts, retryAt } : message));
      return { ...conversation, pending };
    }
    case 'MessageDelivered':
    case 'MessageDeadLettered':
      return { ...conversation, pending: conversation.pending.filter(({ id }) => id !== event.data.message_id) };
    default:
      event satisfies never;
      return conversation;
  }
}

function pendingOf({ message_id: id, channel, text, reply_by }: AcceptedData, revision: number): PendingMessage {
  return { id, channel, revision, bytes: storedBytes(text), replyBy: reply_by ?? null, attempts: 0, retryAt: null };
}

export const conversationDecider: Decider<ConversationState, ConversationCommand, ConversationEvent> = {
  initialState: () => null,
  decide,
  evolve,
  snapshot: { name: 'conversation', version: 2, subject: (conversation) => conversation?.agentId ?? null },
};
