import { Injectable } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';

import { Keyring } from '../../crypto/keyring.ts';
import { EventDeliveries, type DeliveryStatus, type EventDelivery } from './delivery/event-deliveries.ts';
import { sealingContext } from './delivery/event-sender.service.ts';
import { type SubscriptionDto, toSubscriptionDto } from './subscriptions.dto.ts';
import { GetWrittenSubscription } from './subscriptions.queries.ts';
import type { SubscriptionRow } from './subscriptions.table.ts';

/** Answers with subscriptions, whose addresses are sealed in the log and in the read model. */
@Injectable()
export class SubscriptionAnswers {
  constructor(
    private readonly queries: QueryBus,
    private readonly keyring: Keyring,
    private readonly deliveries: EventDeliveries,
  ) {}

  /** Returns the subscription as its stream describes it. Throws `not_found`. */
  async one(accountId: string, subscriptionId: string): Promise<SubscriptionDto> {
    return this.answer(await this.queries.execute(new GetWrittenSubscription(accountId, subscriptionId)));
  }

  /** Returns the row as callers see it. An address whose key was just destroyed is empty. */
  async answer(row: SubscriptionRow): Promise<SubscriptionDto> {
    const { subscription_id: id, url } = row;
    return toSubscriptionDto(row, (await this.keyring.open(id, sealingContext(id, 'url'), url)) ?? '');
  }

  /** Lists the deliveries of the subscription, newest first. Throws `not_found`. */
  async list(
    accountId: string,
    subscriptionId: string,
    { status, limit, before }: { status: DeliveryStatus | null; limit: number; before: string | null },
  ): Promise<EventDelivery[]> {
    await this.queries.execute(new GetWrittenSubscription(accountId, subscriptionId));
    return this.deliveries.list(subscriptionId, status, limit, before);
  }
}
