export { conversationDecider } from './conversations/conversations.decider.ts';
export { conversationEvents } from './conversations/conversations.events.ts';
