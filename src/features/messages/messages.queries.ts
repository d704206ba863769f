import { Query } from '@nestjs/cqrs';

import type { ThreadPage } from './conversations/threads.ts';

/** Returns one page of a conversation. Throws `agent_not_found`, `conversation_not_found`. */
export class ListMessages extends Query<ThreadPage> {
  constructor(
    readonly accountId: string,
    readonly agentId: string,
    readonly conversationId: string,
    readonly limit: number,
    /** The revision that the page ends before; null for the latest page. */
    readonly before: number | null,
  ) {
    super();
  }
}
