export { conversationDecider } from './conversations/conversations.decider.ts';
export { conversationEvents } from './conversations/conversations.events.ts';
export { ConversationRow } from './conversations/conversations.entity.ts';
