export { conversationDecider } from './conversations.decider.ts';
export { conversationEvents } from './conversations.events.ts';
export { ConversationRow } from './conversations.entity.ts';
