import { defineEvent, type EventsOf } from '../../platform/event-store/event-definition.ts';
import type { Sealed } from '../../platform/crypto/keyring.ts';

export type Channel = 'chat' | 'webhook' | 'attachment';

/** The reason why a message was given up; the sender is told this code. */
export type DeadLetterCode = 'agent_failed' | 'agent_unavailable' | 'reply_timeout' | 'runtime_unavailable';

export interface AcceptedData {
  message_id: string;
  channel: Channel;
  text: Sealed;
  /** The time (ISO 8601) until which the sender waits for the reply; absent if nobody waits. */
  reply_by?: string;
}

/** Texts are encrypted with the agent's data key, so deleting the agent makes them unreadable in every copy of the log. */
export const conversationEvents = {
  ConversationStarted: defineEvent<{ agent_id: string; account_id: string; channel: Channel }>()(
    'ConversationStarted',
    ({ channel }) => `Began a conversation (${channel})`,
  ),
  MessageAccepted: defineEvent<AcceptedData>()('MessageAccepted', ({ channel }) => `Sent the agent a message (${channel})`),
  DeliveryFailed: defineEvent<{ message_id: string; attempt: number; reason: string; retry_at: string }>()(
    'DeliveryFailed',
    ({ attempt, reason }) => `Could not deliver the message, attempt ${attempt}: ${reason}`,
  ),
  MessageDelivered: defineEvent<{ message_id: string; reply: Sealed }>()('MessageDelivered', () => 'The agent replied'),
  MessageDeadLettered: defineEvent<{ message_id: string; code: DeadLetterCode; reason: string }>()(
    'MessageDeadLettered',
    ({ reason }) => `Gave the message up: ${reason}`,
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
