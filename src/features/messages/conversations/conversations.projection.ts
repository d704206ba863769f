import { type IQueryHandler, QueryBus, QueryHandler } from '@nestjs/cqrs';
import { GetAgent } from '../../agents/index.ts';
import { Database } from '../../../postgres/database/database.ts';
import { idOf, type StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { entityOf, newestFirst } from '../../../postgres/database/entities.ts';
import { LogFollower } from '../../../eventsourcing/log/log-follower.ts';
import { type Projection, ReadModels, tableOf } from '../../../eventsourcing/projections/projection.ts';
import type { ConversationEvent } from './conversations.events.ts';
import { LatestConversation, ListConversations, ListWaitingConversations } from './conversations.queries.ts';
import { type ConversationRow, conversationsTable } from './conversations.table.ts';

export const conversationsProjection: Projection<typeof conversationsTable> = {
  name: 'conversations',
  version: 2,
  filter: { eventClass: 'core', categories: ['conversation'] },
  table: conversationsTable,
  keys: (event) => [idOf(event.stream)],
  project(stored: StoredEvent, rows) {
    const conversation_id = idOf(stored.stream);
    const event = stored as unknown as ConversationEvent;
    if (event.type === 'ConversationStarted') {
      const { agent_id, account_id, channel } = event.data;
      const times = { created_at: stored.at, updated_at: stored.at };
      rows.set(conversation_id, { conversation_id, agent_id, account_id, channel, messages: 0, pending: 0, retry_at: null, ...times });
      return;
    }
    const row = rows.get(conversation_id);
    if (row === undefined || event.type === 'MessagePartStored') return;
    const pending = row.pending + CHANGES[event.type];
    const messages = row.messages + (event.type === 'MessageAccepted' ? 1 : 0);
    rows.set(conversation_id, { ...row, messages, pending, retry_at: retryAtAfter(event, row.retry_at), updated_at: stored.at });
  },
};

/** The change in the number of waiting messages by each event. */
const CHANGES = {
  MessageAccepted: 1,
  MessageRequeued: 1,
  MessageDelivered: -1,
  MessageDeadLettered: -1,
  DeliveryFailed: 0,
  HandshakeAccepted: 0,
};

/**
 * Returns when the next delivery attempt is due according to the event. A chat is not held back by an earlier message that waits for its
 * retry.
 */
function retryAtAfter(event: ConversationEvent, before: string | null): string | null {
  if (event.type === 'DeliveryFailed') return event.data.channel === undefined ? null : event.data.retry_at;
  if (event.type === 'MessageAccepted' && event.data.channel !== 'chat') return before;
  return event.type === 'MessageRequeued' || event.type === 'HandshakeAccepted' ? before : null;
}

const conversationRows = entityOf(tableOf(conversationsProjection), conversationsTable);

/** The most conversations that one search for waiting messages returns. The next search finds the others. */
const WAITING_MAX = 10_000;

@QueryHandler(ListWaitingConversations)
export class ListWaitingConversationsHandler implements IQueryHandler<ListWaitingConversations> {
  constructor(private readonly database: Database) {}

  /** The accounts are interleaved, so that the backlog of one account does not hide the conversations of others. */
  execute(): Promise<{ key: string; account: string }[]> {
    return this.database.query(
      `select key, account from (
         select conversation_id as key, account_id as account, row_number() over (partition by account_id order by updated_at) as turn
           from ${tableOf(conversationsProjection)} where pending > 0 and (retry_at is null or retry_at <= now())) waiting
        order by turn limit ${WAITING_MAX}`,
    );
  }
}

@QueryHandler(LatestConversation)
export class LatestConversationHandler implements IQueryHandler<LatestConversation> {
  constructor(
    private readonly database: Database,
    private readonly readModels: ReadModels,
    private readonly follower: LogFollower,
  ) {}

  async execute({ agentId }: LatestConversation): Promise<string | null> {
    const head = await this.follower.catchUpToHead();
    if (head !== null) await this.readModels.waitIfRunning(conversationsProjection.name, head);
    const [latest] = await this.database.query<{ conversation_id: string }>(
      `select conversation_id from ${tableOf(conversationsProjection)} where agent_id = $1 and channel <> 'webhook' order by updated_at desc limit 1`,
      [agentId],
    );
    return latest?.conversation_id ?? null;
  }
}

@QueryHandler(ListConversations)
export class ListConversationsHandler implements IQueryHandler<ListConversations> {
  constructor(
    private readonly database: Database,
    private readonly queries: QueryBus,
  ) {}

  async execute({ agentId, accountId, ...page }: ListConversations): Promise<ConversationRow[]> {
    await this.queries.execute(new GetAgent(accountId, agentId));
    const query = this.database.dataSource
      .getRepository(conversationRows)
      .createQueryBuilder('c')
      .where('c.agent_id = :agentId and c.account_id = :accountId', { agentId, accountId });
    return newestFirst(query, ['c.updated_at', 'c.conversation_id'], page).getMany();
  }
}
