import { ArrayMaxSize, ArrayNotEmpty, ArrayUnique, IsArray, IsBoolean, IsIn, IsOptional, IsString, IsUUID, Matches } from 'class-validator';

import { Given } from '../agents/index.ts';
import { PageQueryDto } from '../../http/requests/page.dto.ts';
import { MaxLength } from '../../http/requests/validation.ts';
import { deliveryStatuses, type DeliveryStatus, type EventDelivery } from './delivery/event-deliveries.ts';
import type { SubscriptionRow } from './subscriptions.table.ts';

const CHOICES_MAX = 100;
const EVENT_TYPE = /^[A-Za-z]{1,64}$/;

class ChosenTypesDto {
  /** The types of events, or the beginnings of such, as `Deployment`; null for all types, which is the default. */
  @IsOptional()
  @IsArray()
  @ArrayNotEmpty()
  @ArrayMaxSize(CHOICES_MAX)
  @ArrayUnique()
  @Matches(EVENT_TYPE, { each: true })
  types?: string[] | null;
}

export class CreateSubscriptionDto extends ChosenTypesDto {
  /** The address that events are posted to; it begins with https. */
  @IsString()
  @MaxLength(2_000)
  url: string;

  /** The agents whose events are sent; all agents if absent, and then also what concerns none. */
  @IsOptional()
  @IsArray()
  @ArrayNotEmpty()
  @ArrayMaxSize(CHOICES_MAX)
  @ArrayUnique()
  @IsUUID(undefined, { each: true })
  agent_ids?: string[] | null;
}

export class ChangeSubscriptionDto extends ChosenTypesDto {
  @Given()
  @IsString()
  @MaxLength(2_000)
  url?: string;

  /** The value false stops the deliveries; true continues them where they stopped. */
  @Given()
  @IsBoolean()
  active?: boolean;
}

export class SubscriptionDto {
  id: string;
  url: string;
  /** Null means all types. */
  types: string[] | null;
  /** Null means all agents. */
  agent_ids: string[] | null;
  active: boolean;
  /** The time at which it was switched off because every delivery had failed for three days; null if it is not so. */
  switched_off_at: string | null;
  created_at: string;
  updated_at: string;
}

export class CreatedSubscriptionDto extends SubscriptionDto {
  /** The secret that signs what is sent, in the form of Standard Webhooks; it is returned only here. */
  secret: string;
}

export class DeliveriesQueryDto extends PageQueryDto {
  @IsOptional()
  @IsIn(deliveryStatuses)
  status?: DeliveryStatus;
}

export class EventDeliveryDto {
  event_id: string;
  type: string;
  agent_id: string | null;
  status: DeliveryStatus;
  /** The number of attempts since it was first, or again, to be sent. */
  attempts: number;
  /** The status of the last response; null if there was none. */
  response_status: number | null;
  /** The time of the last attempt; null if there was none. */
  at: string | null;
  /** The time of the next attempt; null if there is none. */
  next_attempt_at: string | null;
}

export function toSubscriptionDto(row: SubscriptionRow, url: string): SubscriptionDto {
  const { subscription_id: id, types, agent_ids, active, switched_off_at, created_at, updated_at } = row;
  return {
    id,
    url,
    types,
    agent_ids,
    active,
    switched_off_at: switched_off_at?.toISOString() ?? null,
    created_at: created_at.toISOString(),
    updated_at: updated_at.toISOString(),
  };
}

export function toEventDeliveryDto(delivery: EventDelivery): EventDeliveryDto {
  const { event_id, type, agent_id, status, attempts, response_status, at, next_attempt_at } = delivery;
  const next = status === 'pending' ? (next_attempt_at?.toISOString() ?? null) : null;
  return { event_id, type, agent_id, status, attempts, response_status, at: at?.toISOString() ?? null, next_attempt_at: next };
}
