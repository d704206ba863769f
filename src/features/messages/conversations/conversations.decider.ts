/*
 * The rules of one conversation: which messages are accepted, which one is delivered next, and what follows from an attempt. Pure.
 *
 * It owns the state of a conversation. It does not own delivery (`MessagesSaga`), texts (threads.ts reads them from the stream), or the
 * rules of budgets (`message-budget`, `tokenless-bytes`).
 *
 * Invariants:
 * C1. The state holds ids, revisions and sizes, but no text, so its memory does not depend on the length of messages (decisions/0013).
 * C2. The messages that wait in a conversation are bounded in number and in bytes, by channel.
 * C3. Each accepted message ends exactly once, as delivered or dead-lettered, unless it is requeued. A record about a message that does not
 *     wait changes nothing.
 * C4. Messages are delivered in order. A chat passes one that waits for its next attempt, because its sender waits for the reply.
 */

import type { Decider } from '../../../eventsourcing/event-store/event-definition.ts';
import type { Sealed } from '../../../crypto/keyring.ts';
import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import type { AcceptedData, Channel, ConversationEvent, CountedBytes, DeadLetterCode } from './conversations.events.ts';
import { drawnInWindow, refuseBeyondBudget, type Draw, type Draws } from './message-budget.rules.ts';
import { refuseBeyondDay, withCounted, type BytesOfHour } from './tokenless-bytes.rules.ts';

interface Bounds {
  messages: number;
  bytes: number;
}

/** The most messages that may wait in one conversation when a message of the channel arrives, and the most bytes of them as stored. */
export const WAITING_MAX: Record<Channel, Bounds> = {
  chat: { messages: 100, bytes: 8 * 1024 * 1024 },
  attachment: { messages: 100, bytes: 8 * 1024 * 1024 },
  webhook: { messages: 1_000, bytes: 64 * 1024 * 1024 },
};
/** The same for the conversation of an agent's webhooks without its token. */
export const TOKENLESS_WAITING_MAX: Bounds = { messages: 250, bytes: 32 * 1024 * 1024 };
/** The longest text in bytes of UTF-8. Encrypted and in base64, it still fits into an event. */
export const TEXT_BYTES_MAX = 700_000;
/** The delays before the attempts after a failed one, in ms, where nobody waits for the outcome. */
export const DELIVERY_WAITS_MS: readonly number[] = [1_000, 5_000, 30_000, 120_000, 600_000];
/**
 * The delays before the attempts after a failed one, in ms. When the last attempt fails, the message is dead-lettered. The delays of a chat
 * are short, because its sender waits.
 */
export const RETRY_DELAYS_MS: Record<Channel, readonly number[]> = {
  chat: [250, 1_000, 5_000],
  attachment: DELIVERY_WAITS_MS,
  webhook: DELIVERY_WAITS_MS,
};

/** A message that waits for its delivery. Its text stays in the stream, at its revision, and is read at the delivery. */
export interface PendingMessage {
  id: string;
  channel: Channel;
  /** The revision of the event that accepted the message. */
  revision: number;
  /** The size of the text as stored, in bytes. */
  bytes: number;
  /** The time (ISO 8601) until which the sender waits for the reply, after which the message is not delivered. Null if nobody waits. */
  replyBy: string | null;
  /** The number of failed attempts so far. */
  attempts: number;
  /** The time (ISO 8601) of the earliest next attempt; null means now. */
  retryAt: string | null;
  /** The revision of the event that requested another delivery; null if this is the first one. */
  requeuedAt: number | null;
}

/** C1: the state of a conversation, with ids, revisions and sizes, but without texts. */
export interface Conversation {
  agentId: string;
  accountId: string;
  channel: Channel;
  /** The value is true for the webhooks without the agent's token. */
  tokenless: boolean;
  /** The revision of the last event that was applied. */
  revision: number;
  /** The waiting messages in the order of delivery. Each waits for the one before it. */
  pending: PendingMessage[];
  /** The webhooks and handshakes of the last minute, oldest first. */
  draws: Draw[];
  /** The bytes of the webhooks without a token in the hours of the last day, oldest first. */
  bytesByHour: BytesOfHour[];
  /** The id of the agent's task that waits for the next message; null if none does. */
  openTask: string | null;
}

export type ConversationState = Conversation | null;

/** A message to be stored. */
interface NewMessage {
  agentId: string;
  accountId: string;
  messageId: string;
  channel: Channel;
  text: Sealed;
  /** The value is true if this message may start the conversation. */
  begins: boolean;
  /** The budget that the message draws on, if there is one. */
  draws?: Draws | undefined;
}

export type ConversationCommand =
  /** Stores a part of a long message, before the message is accepted. */
  | (NewMessage & { type: 'StorePart'; part: number })
  | (NewMessage & {
      type: 'AcceptMessage';
      /** The time (ISO 8601) until which the sender waits for the reply; null if nobody waits. */
      replyBy: string | null;
      /** The events that hold the rest of a long message. */
      parts?: NonNullable<AcceptedData['parts']>;
    })
  /** Lets a sender's handshake draw on the budget of webhooks. `draws` names its caller. */
  | { type: 'AcceptHandshake'; agentId: string; accountId: string; method: string; draws: Draws & { caller: string } }
  /** Delivers a message again after its delivery has ended. */
  | { type: 'RequeueMessage'; messageId: string; channel: Channel; revision: number; bytes: number }
  | { type: 'RecordReply'; messageId: string; reply: Sealed; openTask?: string | undefined }
  /** There was no reply, but another attempt may get one. The sender gets `code` if this was the last attempt. */
  | { type: 'RecordFailedAttempt'; messageId: string; code: DeadLetterCode; reason: string }
  | { type: 'RecordDeadLetter'; messageId: string; code: DeadLetterCode; reason: string };

/**
 * Returns the message that is delivered next. C4
 */
export function nextMessage({ pending }: Conversation, now: Date): PendingMessage | undefined {
  const [first] = pending;
  if (first === undefined || !isPostponed(first, now)) return first;
  return pending.find(({ channel }) => channel === 'chat') ?? first;
}

/** Returns whether nobody waits for the reply and the message's next attempt is not due. */
export function isPostponed({ channel, retryAt }: PendingMessage, now: Date): boolean {
  return channel !== 'chat' && retryAt !== null && Date.parse(retryAt) > now.getTime();
}

/**
 * Returns the conversation with the message postponed until that time. It is for a deferred delivery, which counts as no attempt and is in
 * no event: whoever reads the conversation from the log finds the message due.
 */
export function withPostponed(conversation: Conversation, messageId: string, until: Date): Conversation {
  const retryAt = until.toISOString();
  return {
    ...conversation,
    pending: conversation.pending.map((message) => (message.id === messageId ? { ...message, retryAt } : message)),
  };
}

/** Returns whether a message is due or being delivered. */
export function hasDueMessage(conversation: Conversation, now: Date): boolean {
  const next = nextMessage(conversation, now);
  return next !== undefined && !isPostponed(next, now);
}

function decide(command: ConversationCommand, conversation: ConversationState, now: Date): ConversationEvent[] {
  if (command.type === 'AcceptMessage' || command.type === 'StorePart') return store(command, conversation, now);
  if (command.type === 'AcceptHandshake') return acceptHandshake(command, conversation, now);
  if (command.type === 'RequeueMessage') return requeue(command, conversation);
  const message = conversation?.pending.find(({ id }) => id === command.messageId);
  // C3
  if (message === undefined) return [];
  const ids = { message_id: message.id, ...ofChannel(message, conversation) };
  switch (command.type) {
    case 'RecordReply':
      return [{ type: 'MessageDelivered', data: { ...ids, reply: command.reply, ...openTaskOf(command) } }];
    case 'RecordDeadLetter':
      return [{ type: 'MessageDeadLettered', data: { ...ids, code: command.code, reason: command.reason } }];
    case 'RecordFailedAttempt': {
      const delayMs = RETRY_DELAYS_MS[message.channel][message.attempts];
      const { code, reason } = command;
      if (delayMs === undefined) return [{ type: 'MessageDeadLettered', data: { ...ids, code, reason } }];
      const retry_at = new Date(now.getTime() + delayMs).toISOString();
      return [{ type: 'DeliveryFailed', data: { ...ids, attempt: message.attempts + 1, reason, retry_at } }];
    }
  }
}

function openTaskOf({ openTask }: { openTask?: string | undefined }): { open_task?: string } {
  return openTask === undefined ? {} : { open_task: openTask };
}

function ofChannel({ channel }: PendingMessage, conversation: ConversationState): { channel?: Channel; agent?: string } {
  return channel === 'chat' || conversation === null ? {} : { channel, agent: conversation.agentId };
}

type Store = Extract<ConversationCommand, { type: 'AcceptMessage' | 'StorePart' }>;

function store(command: Store, conversation: ConversationState, now: Date): ConversationEvent[] {
  const { agentId, accountId, messageId, channel, text, draws } = command;
  const tokenless = draws?.tokenless !== undefined;
  requireOwn(conversation, agentId, accountId);
  if (conversation === null && !command.begins) throw conversationNotFound();
  if (conversation?.pending.some(({ id }) => id === messageId)) return [];
  refuseBeyondBounds(conversation?.pending ?? [], boundsOf(channel, tokenless), storedBytes(text));
  if (draws !== undefined) refuseBeyondBudget(draws, conversation?.draws ?? [], now);
  const counted = countedOf(command, conversation?.bytesByHour ?? [], now);
  const stored: ConversationEvent =
    command.type === 'AcceptMessage'
      ? { type: 'MessageAccepted', data: { ...acceptedData(command, now), ...counted } }
      : { type: 'MessagePartStored', data: { message_id: messageId, part: command.part, text, ...counted } };
  if (conversation !== null) return [stored];
  const data = { agent_id: agentId, account_id: accountId, channel, ...(tokenless ? { tokenless } : {}) };
  return [{ type: 'ConversationStarted', data }, stored];
}

function requireOwn(conversation: ConversationState, agentId: string, accountId: string): void {
  if (conversation !== null && (conversation.agentId !== agentId || conversation.accountId !== accountId)) throw conversationNotFound();
}

function conversationNotFound(): ProblemError {
  return new ProblemError('conversation_not_found', 'The agent has no such conversation.');
}

function acceptHandshake(
  { agentId, accountId, method, draws }: Extract<ConversationCommand, { type: 'AcceptHandshake' }>,
  conversation: ConversationState,
  now: Date,
): ConversationEvent[] {
  requireOwn(conversation, agentId, accountId);
  refuseBeyondBudget(draws, conversation?.draws ?? [], now);
  const draw = { caller: draws.caller, at: now.toISOString() };
  const accepted: ConversationEvent = { type: 'HandshakeAccepted', data: { channel: 'webhook', agent: agentId, method, draws: draw } };
  if (conversation !== null) return [accepted];
  return [{ type: 'ConversationStarted', data: { agent_id: agentId, account_id: accountId, channel: 'webhook' } }, accepted];
}

/**
 * Returns the bytes that the event adds to the agent's daily limit of webhooks without a token. The first event of a message counts the
 * whole message, before any part is stored. Throws `rate_limited` above the limit.
 */
function countedOf(command: Store, hours: readonly BytesOfHour[], now: Date): { counted?: CountedBytes } {
  const tokenless = command.draws?.tokenless;
  const isFirst = command.type === 'StorePart' ? command.part === 1 : command.parts === undefined;
  if (tokenless === undefined || !isFirst) return {};
  refuseBeyondDay(tokenless, hours, now);
  return { counted: { bytes: tokenless.bytes, at: now.toISOString() } };
}

function acceptedData(command: Extract<Store, { type: 'AcceptMessage' }>, now: Date): AcceptedData {
  const { agentId, messageId, channel, text, replyBy, parts, draws } = command;
  return {
    message_id: messageId,
    channel,
    text,
    ...(replyBy === null ? {} : { reply_by: replyBy }),
    ...(parts === undefined ? {} : { parts }),
    ...(draws === undefined ? {} : { draws: drawn(draws, agentId, now) }),
  };
}

function drawn({ caller, tokenless }: Draws, agent: string, now: Date): NonNullable<AcceptedData['draws']> {
  return {
    agent,
    ...(caller === null ? {} : { caller }),
    at: now.toISOString(),
    ...(tokenless === undefined ? {} : { tokenless: true }),
  };
}

function requeue(command: Extract<ConversationCommand, { type: 'RequeueMessage' }>, conversation: ConversationState): ConversationEvent[] {
  const { messageId, channel, revision, bytes } = command;
  if (conversation === null || conversation.pending.some(({ id }) => id === messageId)) return [];
  refuseBeyondBounds(conversation.pending, boundsOf(channel, conversation.tokenless), bytes);
  return [{ type: 'MessageRequeued', data: { message_id: messageId, channel, revision, bytes } }];
}

function boundsOf(channel: Channel, tokenless: boolean): Bounds {
  return tokenless ? TOKENLESS_WAITING_MAX : WAITING_MAX[channel];
}

function refuseBeyondBounds(pending: PendingMessage[], most: Bounds, bytes: number): void {
  const facts = { retryAfterSeconds: 5 };
  if (pending.length >= most.messages)
    throw new ProblemError('rate_limited', `${most.messages} messages of this conversation wait for the agent already.`, facts);
  if (pending.reduce((sum, message) => sum + message.bytes, bytes) > most.bytes)
    throw new ProblemError('rate_limited', 'The messages of this conversation that wait for the agent are too long together.', facts);
}

/** Returns the size of an encrypted text as stored, in bytes. Only its base64 depends on the text. */
function storedBytes(text: Sealed): number {
  return text.ct.length;
}

function evolve(before: ConversationState, event: ConversationEvent): ConversationState {
  if (event.type === 'ConversationStarted') {
    const { agent_id: agentId, account_id: accountId, channel, tokenless = false } = event.data;
    return { agentId, accountId, channel, tokenless, revision: 0, pending: [], draws: [], bytesByHour: [], openTask: null };
  }
  if (before === null) return before;
  const conversation = { ...before, revision: before.revision + 1 };
  switch (event.type) {
    case 'MessageAccepted': {
      const pending = [...conversation.pending, pendingOf(event.data, conversation.revision)];
      const bytesByHour = withCounted(conversation.bytesByHour, event.data.counted);
      return { ...conversation, pending, draws: drawnInWindow(conversation.draws, event.data.draws), bytesByHour };
    }
    case 'HandshakeAccepted':
      return { ...conversation, draws: drawnInWindow(conversation.draws, event.data.draws) };
    case 'MessageRequeued': {
      const { message_id: id, channel, revision, bytes } = event.data;
      const again = { id, channel, revision, bytes, replyBy: null, attempts: 0, retryAt: null, requeuedAt: conversation.revision };
      return { ...conversation, pending: [...conversation.pending, again] };
    }
    case 'DeliveryFailed': {
      const { message_id: id, attempt: attempts, retry_at: retryAt } = event.data;
      const pending = conversation.pending.map((message) => (message.id === id ? { ...message, attempts, retryAt } : message));
      return { ...conversation, pending };
    }
    case 'MessageDelivered':
      return { ...conversation, pending: without(conversation.pending, event.data.message_id), openTask: event.data.open_task ?? null };
    case 'MessageDeadLettered':
      return { ...conversation, pending: without(conversation.pending, event.data.message_id) };
    case 'MessagePartStored':
      return { ...conversation, bytesByHour: withCounted(conversation.bytesByHour, event.data.counted) };
    default:
      event satisfies never;
      return conversation;
  }
}

function without(pending: PendingMessage[], messageId: string): PendingMessage[] {
  return pending.filter(({ id }) => id !== messageId);
}

function pendingOf({ message_id: id, channel, text, reply_by, parts }: AcceptedData, revision: number): PendingMessage {
  const bytes = storedBytes(text) + (parts?.bytes ?? 0);
  return { id, channel, revision, bytes, replyBy: reply_by ?? null, attempts: 0, retryAt: null, requeuedAt: null };
}

export const conversationDecider: Decider<ConversationState, ConversationCommand, ConversationEvent> = {
  initialState: () => null,
  decide,
  evolve,
  snapshot: { name: 'conversation', version: 5, subject: (conversation) => conversation?.agentId ?? null },
};
