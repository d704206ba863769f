import { defineEvent, type EventsOf } from '../../../eventsourcing/event-store/event-definition.ts';
import type { Sealed } from '../../../crypto/keyring.ts';

export type Channel = 'chat' | 'webhook' | 'attachment';

/** The reason why a message was dead-lettered; the sender gets this code. */
export type DeadLetterCode = 'agent_failed' | 'agent_unavailable' | 'reply_timeout' | 'runtime_unavailable';

export interface AcceptedData {
  message_id: string;
  channel: Channel;
  /** The text of a chat message; on the other channels the beginning of the result of `writeContent`. */
  text: Sealed;
  /** The time (ISO 8601) until which the sender waits for the reply; absent if nobody waits. */
  reply_by?: string;
  /** The events of this stream that hold the rest of a long message; absent if there is none. */
  parts?: { revisions: number[]; bytes: number };
  /**
   * The budget that the message draws on: the agent's, and for a webhook the caller's at that agent. `tokenless` is true if the webhook
   * came without the agent's token.
   */
  draws?: { agent: string; caller?: string; at: string; tokenless?: boolean };
  /** Absent in every event but the first one of a webhook without a token. */
  counted?: CountedBytes;
}

/** The bytes that count against an agent's day of webhooks without its token. */
export interface CountedBytes {
  bytes: number;
  at: string;
}

/** The channel and the agent of a message whose sender does not wait; absent for a chat. */
interface OfChannel {
  channel?: Channel;
  agent?: string;
}

/** Texts are encrypted with the agent's data key, so deleting the agent makes them unreadable in every copy of the log. */
export const conversationEvents = {
  /** `tokenless` is true for the conversation of the agent's webhooks that come without its token. */
  ConversationStarted: defineEvent<{ agent_id: string; account_id: string; channel: Channel; tokenless?: boolean }>()(
    'ConversationStarted',
    ({ channel }) => `Began a conversation (${channel})`,
  ),
  MessageAccepted: defineEvent<AcceptedData>()('MessageAccepted', ({ channel }) => `Sent the agent a message (${channel})`),
  /** A handshake by which a sender makes sure that the agent is its receiver. The agent answers it at once; the event holds nothing of it. */
  HandshakeAccepted: defineEvent<{ channel: 'webhook'; agent: string; method: string; draws: { caller: string; at: string } }>()(
    'HandshakeAccepted',
    ({ method }) => `Accepted a sender’s handshake for the agent (${method})`,
  ),
  MessagePartStored: defineEvent<{ message_id: string; part: number; text: Sealed; counted?: CountedBytes }>()(
    'MessagePartStored',
    ({ part }) => `Sent part ${part} of a long message`,
  ),
  DeliveryFailed: defineEvent<{ message_id: string; attempt: number; reason: string; retry_at: string } & OfChannel>()(
    'DeliveryFailed',
    ({ attempt, reason }) => `Could not deliver the message, attempt ${attempt}: ${reason}`,
  ),
  /** `open_task` is the id of the agent's task that waits for the next message; absent if none does. */
  MessageDelivered: defineEvent<{ message_id: string; reply: Sealed; open_task?: string } & OfChannel>()(
    'MessageDelivered',
    () => 'The agent replied',
  ),
  MessageDeadLettered: defineEvent<{ message_id: string; code: DeadLetterCode; reason: string } & OfChannel>()(
    'MessageDeadLettered',
    ({ reason }) => `Gave the message up: ${reason}`,
  ),
  /** `revision` and `bytes` are those of the accepted message, whose text is not repeated. */
  MessageRequeued: defineEvent<{ message_id: string; channel: Channel; revision: number; bytes: number }>()(
    'MessageRequeued',
    ({ channel }) => `Asked for another delivery of the message (${channel})`,
  ),
};

export type ConversationEvent = EventsOf<typeof conversationEvents>;

/** The event that ends a message. */
export type Outcome = Extract<ConversationEvent, { type: 'MessageDelivered' | 'MessageDeadLettered' }>;

/** Returns true if the stored event ends that message. */
export function isOutcomeOf<E extends { type: string; data: object }>(event: E, messageId: string): event is E & Outcome {
  const isOutcome = event.type === 'MessageDelivered' || event.type === 'MessageDeadLettered';
  return isOutcome && (event.data as { message_id?: unknown }).message_id === messageId;
}
