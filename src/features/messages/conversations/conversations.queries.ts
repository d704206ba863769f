import { Query } from '@nestjs/cqrs';

import type { ConversationRow } from './conversations.table.ts';

/** Lists the conversations of all agents with messages that wait for delivery, with their accounts. */
export class ListWaitingConversations extends Query<{ key: string; account: string }[]> {}

/** Returns the id of the agent's conversation with the latest message, except the conversations of webhooks; null if it has none. */
export class LatestConversation extends Query<string | null> {
  constructor(readonly agentId: string) {
    super();
  }
}

/** Lists the agent's conversations, the one with the latest message first. Throws `agent_not_found`. */
export class ListConversations extends Query<ConversationRow[]> {
  constructor(
    readonly agentId: string,
    readonly accountId: string,
    readonly limit: number,
    /** The `updated_at` and id of the last conversation on the previous page. */
    readonly after: readonly [string, string] | null,
  ) {
    super();
  }
}
