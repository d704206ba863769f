import type { ReadRow } from '../../../postgres/database/table.ts';
import type { ProjectionTable } from '../../../eventsourcing/projections/projection.ts';

export const conversationsTable = {
  key: 'conversation_id',
  columns: {
    conversation_id: 'text not null',
    agent_id: 'text not null',
    account_id: 'text not null',
    channel: 'text not null',
    messages: 'integer not null',
    /** The number of messages that wait to be delivered. */
    pending: 'integer not null',
    /** The time of the next attempt; null if it is now. */
    retry_at: 'timestamptz',
    created_at: 'timestamptz not null',
    updated_at: 'timestamptz not null',
  },
  indexes: { by_agent: '(agent_id, updated_at desc)', waiting: '(conversation_id) where pending > 0' },
} as const satisfies ProjectionTable;

export type ConversationRow = ReadRow<typeof conversationsTable>;
