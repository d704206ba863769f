import { v5 as uuidv5 } from 'uuid';

/** Returns the id of the conversation of the agent's webhooks that come with its token. */
export function webhookConversation(agentId: string): string {
  return uuidv5('webhooks', agentId);
}

/** Returns the id of the conversation of the agent's webhooks that come without its token. */
export function tokenlessConversation(agentId: string): string {
  return uuidv5('webhooks without a token', agentId);
}
