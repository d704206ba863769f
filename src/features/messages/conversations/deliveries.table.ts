import { typed, type ReadRow } from '../../../postgres/database/table.ts';
import type { ProjectionTable } from '../../../eventsourcing/projections/projection.ts';
import type { Channel } from './conversations.events.ts';

export const deliveryStatuses = ['pending', 'delivered', 'dead_letter'] as const;
export type DeliveryStatus = (typeof deliveryStatuses)[number];

/** The messages whose senders do not wait, and their deliveries. */
export const deliveriesTable = {
  key: 'message_id',
  columns: {
    message_id: 'text not null',
    agent_id: 'text not null',
    account_id: 'text',
    conversation_id: 'text not null',
    channel: typed<Channel>('text not null'),
    status: typed<DeliveryStatus>('text not null'),
    /** The number of failed attempts since the message was accepted, or since another delivery was requested. */
    attempts: 'integer not null',
    /** The reason why the last attempt failed; null if none did. */
    message: 'text',
    next_attempt_at: 'timestamptz',
    accepted_at: 'timestamptz not null',
    ended_at: 'timestamptz',
    /** The revision of the event that accepted the message, and the size of the message as stored. */
    revision: 'integer not null',
    bytes: 'integer not null',
  },
  indexes: {
    by_agent: '(agent_id, accepted_at desc, message_id desc)',
    by_status: '(agent_id, status, accepted_at desc, message_id desc)',
  },
} as const satisfies ProjectionTable;

export type DeliveryRow = ReadRow<typeof deliveriesTable>;
