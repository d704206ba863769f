import { type IQueryHandler, QueryBus, QueryHandler } from '@nestjs/cqrs';

import { GetAgent } from '../../agents/index.ts';
import { Database } from '../../../postgres/database/database.ts';
import { entityOf, newestFirst } from '../../../postgres/database/entities.ts';
import type { WrittenRow } from '../../../postgres/database/table.ts';
import { idOf, type StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { type Projection, tableOf } from '../../../eventsourcing/projections/projection.ts';
import type { ConversationEvent } from './conversations.events.ts';
import { FindDelivery, ListDeliveries } from './deliveries.queries.ts';
import { deliveriesTable, type DeliveryRow } from './deliveries.table.ts';

const types = ['MessageAccepted', 'MessageRequeued', 'DeliveryFailed', 'MessageDelivered', 'MessageDeadLettered'] as const;
type DeliveryEvent = Extract<ConversationEvent, { type: (typeof types)[number] }>;
type WrittenDelivery = WrittenRow<typeof deliveriesTable>;

/** Lists the messages whose senders do not wait. The sender of a chat gets the outcome as the response. */
export const deliveriesProjection: Projection<typeof deliveriesTable> = {
  name: 'deliveries',
  version: 1,
  filter: { eventClass: 'core', categories: ['conversation'], types },
  concerns: isNotChat,
  table: deliveriesTable,
  keys: (event) => (isNotChat(event) ? [(event as unknown as DeliveryEvent).data.message_id] : []),
  project(stored, rows) {
    if (!isNotChat(stored)) return;
    const event = stored as unknown as DeliveryEvent;
    const row = event.type === 'MessageAccepted' ? accepted(stored, event.data) : rows.get(event.data.message_id);
    if (row !== undefined && row !== null) rows.set(row.message_id, { ...row, ...changes(event, row, stored.at) });
  },
};

/** Returns whether the event belongs to a message that is not a chat. The events of a chat contain no channel, except the first one. */
function isNotChat({ data }: StoredEvent): boolean {
  return data.channel !== undefined && data.channel !== 'chat';
}

function accepted(stored: StoredEvent, data: Extract<DeliveryEvent, { type: 'MessageAccepted' }>['data']): WrittenDelivery | null {
  if (data.draws === undefined) return null;
  return {
    message_id: data.message_id,
    agent_id: data.draws.agent,
    account_id: stored.metadata.account_id,
    conversation_id: idOf(stored.stream),
    channel: data.channel,
    status: 'pending',
    attempts: 0,
    message: null,
    next_attempt_at: null,
    accepted_at: stored.at,
    ended_at: null,
    revision: stored.revision,
    bytes: data.text.ct.length + (data.parts?.bytes ?? 0),
  };
}

function changes(event: DeliveryEvent, { attempts }: WrittenDelivery, at: string): Partial<WrittenDelivery> {
  switch (event.type) {
    case 'MessageAccepted':
      return {};
    case 'MessageRequeued':
      return { status: 'pending', attempts: 0, message: null, ended_at: null };
    case 'DeliveryFailed':
      return { attempts: event.data.attempt, message: event.data.reason, next_attempt_at: event.data.retry_at };
    case 'MessageDelivered':
      return { status: 'delivered', message: null, next_attempt_at: null, ended_at: at };
    case 'MessageDeadLettered':
      return { status: 'dead_letter', attempts: attempts + 1, message: event.data.reason, next_attempt_at: null, ended_at: at };
  }
}

const deliveryRows = entityOf(tableOf(deliveriesProjection), deliveriesTable);

@QueryHandler(FindDelivery)
export class FindDeliveryHandler implements IQueryHandler<FindDelivery> {
  constructor(private readonly database: Database) {}

  execute({ messageId }: FindDelivery): Promise<DeliveryRow | null> {
    return this.database.dataSource.getRepository(deliveryRows).findOneBy({ message_id: messageId });
  }
}

@QueryHandler(ListDeliveries)
export class ListDeliveriesHandler implements IQueryHandler<ListDeliveries> {
  constructor(
    private readonly database: Database,
    private readonly queries: QueryBus,
  ) {}

  async execute({ agentId, accountId, status, ...page }: ListDeliveries): Promise<DeliveryRow[]> {
    await this.queries.execute(new GetAgent(accountId, agentId));
    const query = this.database.dataSource.getRepository(deliveryRows).createQueryBuilder('d').where('d.agent_id = :agentId', { agentId });
    if (status !== null) query.andWhere('d.status = :status', { status });
    return newestFirst(query, ['d.accepted_at', 'd.message_id'], page).getMany();
  }
}
