import type { Sealed } from '../../crypto/keyring.ts';
import { defineEvent, type EventsOf } from '../../eventsourcing/event-store/event-definition.ts';

/**
 * The address of a subscription may hold a token and its secret signs what is sent, so both are encrypted with the subscription's own data
 * key. The host is in clear, so that the history can name it.
 */
export const subscriptionEvents = {
  SubscriptionCreated: defineEvent<{
    account_id: string;
    subscription_id: string;
    host: string;
    url: Sealed;
    secret: Sealed;
    /** The types of events, or the beginnings of such; null means all. */
    types: string[] | null;
    /** The agents whose events are sent; null means all, and the events that concern no agent. */
    agent_ids: string[] | null;
  }>()('SubscriptionCreated', ({ host }) => `Subscribed ${host} to events`),
  SubscriptionChanged: defineEvent<{
    account_id: string;
    subscription_id: string;
    changes: { host?: string; url?: Sealed; types?: string[] | null; active?: boolean };
  }>()('SubscriptionChanged', ({ changes }) => `Changed ${Object.keys(changes).join(', ')} of the subscription`),
  /** No delivery had succeeded for days, so nothing more is sent until somebody switches the subscription on again. */
  SubscriptionSwitchedOff: defineEvent<{ account_id: string; subscription_id: string; failing_since: string }>()(
    'SubscriptionSwitchedOff',
    ({ failing_since }) => `Switched the subscription off: every delivery has failed since ${failing_since}`,
  ),
  SubscriptionDeleted: defineEvent<{ account_id: string; subscription_id: string }>()(
    'SubscriptionDeleted',
    () => 'Ended the subscription',
  ),
  /** All attempts at one event have failed; it is sent again only if somebody asks for it. */
  EventDeadLettered: defineEvent<{ account_id: string; subscription_id: string; event_id: string; attempts: number; reason: string }>()(
    'EventDeadLettered',
    ({ event_id, attempts, reason }) => `Gave up sending the event ${event_id} after ${attempts} attempts: ${reason}`,
  ),
  EventRedeliveryRequested: defineEvent<{ account_id: string; subscription_id: string; event_id: string }>()(
    'EventRedeliveryRequested',
    ({ event_id }) => `Asked to send the event ${event_id} again`,
  ),
};

export type SubscriptionEvent = EventsOf<typeof subscriptionEvents>;
