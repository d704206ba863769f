import type { Sealed } from '../../crypto/keyring.ts';
import { defineEvent, type EventsOf } from '../../eventsourcing/event-store/event-definition.ts';

/** The token is encrypted with the agent's data key, so that it can be shown again. */
export const webhookEvents = {
  WebhookTokenIssued: defineEvent<{ agent_id: string; token_id: string; token: Sealed; sha256: string; replaces: string | null }>()(
    'WebhookTokenIssued',
    ({ replaces }) => (replaces === null ? 'Issued the token for webhooks' : 'Replaced the token for webhooks; the old one ended'),
  ),
};

export type WebhookEvent = EventsOf<typeof webhookEvents>;
