export { webhookEvents } from './webhook-tokens.events.ts';
