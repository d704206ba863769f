export { conversationDecider } from './conversations/conversations.decider.ts';
export { conversationEvents } from './conversations/conversations.events.ts';
export { FindDelivery } from './conversations/deliveries.queries.ts';
export { tokenlessConversation, webhookConversation } from './conversations/webhook-lanes.ts';
export { DELIVERY_WAITS_MS } from './conversations/conversations.decider.ts';
