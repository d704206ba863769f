import { defineEvent, type EventsOf } from '../platform/event-store/event-definition.ts';
import type { Sealed } from '../platform/crypto/sealed.ts';

export type Channel = 'chat' | 'webhook' | 'attachment';

/** Why a message was given up; the code is what its sender is told. */
export type DeadLetterCode = 'agent_failed' | 'agent_unavailable' | 'reply_timeout' | 'runtime_unavailable';

export interface AcceptedData {
  message_id: string;
  channel: Channel;
  text: Sealed;
  /** Until when (ISO 8601) the sender waits for the reply; absent where nobody waits. */
  reply_by?: string;
}

/** Texts are sealed under the agent's data key: deleting the agent makes them unreadable in every copy of the log. */
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

/** How a message ended. */
export type Outcome = Extract<ConversationEvent, { type: 'MessageDelivered' | 'MessageDeadLettered' }>;

/** Whether the stored event is the end of that message. */
export function isOutcomeOf<E extends { type: string; data: object }>(event: E, messageId: string): event is E & Outcome {
  const isOutcome = event.type === 'MessageDelivered' || event.type === 'MessageDeadLettered';
  return isOutcome && (event.data as { message_id?: unknown }).message_id === messageId;
}
