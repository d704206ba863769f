export { conversationDecider } from './conversation.decider.ts';
export { conversationEvents } from './conversation.events.ts';
export { ConversationRow } from './conversation.entity.ts';
