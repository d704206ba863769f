import { Allow, IsIn, IsOptional } from 'class-validator';

import { AgentIdMember } from '../agents/index.ts';
import { PageQueryDto } from '../../http/requests/page.dto.ts';
import { deliveryStatuses, type DeliveryRow, type DeliveryStatus } from './conversations/deliveries.table.ts';

export class DeliveryPathDto {
  @AgentIdMember()
  agentId: string;

  @Allow()
  messageId: string;
}

export class DeliveriesQueryDto extends PageQueryDto {
  /** Selects the deliveries that wait, that ended with a reply, or that failed. */
  @IsOptional()
  @IsIn(deliveryStatuses)
  status?: DeliveryStatus;
}

export interface DeliveryView {
  /** The id of the message. */
  id: string;
  conversationId: string;
  channel: string;
  status: DeliveryStatus;
  /** The number of failed attempts. */
  attempts: number;
  /** The reason why the last attempt failed. */
  message: string | null;
  nextAttemptAt: string | null;
  acceptedAt: string;
  endedAt: string | null;
}

export interface RedeliveryView {
  accepted: true;
  message_id: string;
}

export function toDeliveryView(row: DeliveryRow): DeliveryView {
  return {
    id: row.message_id,
    conversationId: row.conversation_id,
    channel: row.channel,
    status: row.status,
    attempts: row.attempts,
    message: row.message,
    nextAttemptAt: row.next_attempt_at?.toISOString() ?? null,
    acceptedAt: row.accepted_at.toISOString(),
    endedAt: row.ended_at?.toISOString() ?? null,
  };
}
