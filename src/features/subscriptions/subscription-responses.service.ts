import { Injectable } from '@nestjs/common';

import { Keyring } from '../../crypto/keyring.ts';
import { Aggregates } from '../../eventsourcing/aggregates/aggregates.ts';
import type { DatedState } from '../../eventsourcing/aggregates/dated-state.ts';
import { EventDeliveries, type DeliveryStatus, type EventDelivery } from './delivery/event-deliveries.ts';
import { sealingContext } from './delivery/event-sender.service.ts';
import { ownedSubscription, type Subscription, subscriptionDecider, subscriptionStream } from './subscriptions.decider.ts';
import { type SubscriptionDto, toSubscriptionDto } from './subscriptions.dto.ts';
import { readSubscription, type SubscriptionRow } from './subscriptions.table.ts';

/** Responds with subscriptions. Their addresses are encrypted in the log and in the read model. */
@Injectable()
export class SubscriptionResponses {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly keyring: Keyring,
    private readonly deliveries: EventDeliveries,
  ) {}

  /** Returns the subscription from its stream. Throws `not_found`. */
  async find(accountId: string, subscriptionId: string): Promise<SubscriptionDto> {
    return this.answerState(await this.load(accountId, subscriptionId));
  }

  /** Returns the subscription in this state as callers see it. */
  answerState(subscription: DatedState<Subscription>): Promise<SubscriptionDto> {
    return this.toDto(readSubscription(subscription));
  }

  /** Returns the row as callers see it. The address is empty if its key was just destroyed. */
  async toDto(row: SubscriptionRow): Promise<SubscriptionDto> {
    const { subscription_id: id, url } = row;
    return toSubscriptionDto(row, (await this.keyring.open(id, sealingContext(id, 'url'), url)) ?? '');
  }

  /** Lists the deliveries of the subscription, newest first. Throws `not_found`. */
  async list(
    accountId: string,
    subscriptionId: string,
    { status, limit, before }: { status: DeliveryStatus | null; limit: number; before: string | null },
  ): Promise<EventDelivery[]> {
    await this.load(accountId, subscriptionId);
    return this.deliveries.list(subscriptionId, status, limit, before);
  }

  private async load(accountId: string, subscriptionId: string): Promise<DatedState<Subscription>> {
    const found = await this.aggregates.load(subscriptionStream(subscriptionId), subscriptionDecider);
    return { ...found, state: ownedSubscription(found.state, accountId) };
  }
}
