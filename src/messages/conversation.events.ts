import { defineEvent, type EventsOf } from '../platform/event-store/event-definition.ts';
import type { Sealed } from '../platform/crypto/sealed.ts';

export type Channel = 'chat' | 'webhook' | 'attachment';

/** Why a message was given up; the code is what its sender is told. */
export type DeadLetterCode = 'agent_failed' | 'agent_unavailable' | 'reply_timeout';

/** Texts are sealed under the agent's data key: deleting the agent makes them unreadable in every copy of the log. */
export const conversationEvents = {
  ConversationStarted: defineEvent<{ agent_id: string; account_id: string; channel: Channel }>()(
    'ConversationStarted',
    ({ channel }) => `Began a conversation (${channel})`,
  ),
  MessageAccepted: defineEvent<{ message_id: string; channel: Channel; text: Sealed }>()(
    'MessageAccepted',
    ({ channel }) => `Sent the agent a message (${channel})`,
  ),
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
