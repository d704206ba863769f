export { subscriptionEvents } from './subscriptions.events.ts';
