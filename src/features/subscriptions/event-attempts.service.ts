import { Injectable } from '@nestjs/common';
import { v5 as uuidv5 } from 'uuid';

import { Clock } from '../../kernel/clock.ts';
import { systemContext } from '../../kernel/context/command-context.ts';
import { Aggregates } from '../../eventsourcing/aggregates/aggregates.ts';
import type { SagaPass } from '../../eventsourcing/sagas/saga.ts';
import { EventDeliveries, type EventDelivery } from './delivery/event-deliveries.ts';
import { EventSender } from './delivery/event-sender.service.ts';
import { nextAttempt } from './delivery/schedule.ts';
import type { PostResult } from './delivery/targets.ts';
import { type Subscription, type SubscriptionCommand, subscriptionDecider, subscriptionStream } from './subscriptions.decider.ts';

/** The concurrent requests to one subscription, each with an event of another agent. */
const CONCURRENT_REQUESTS_MAX = 8;
/** A subscription is switched off after this time without a successful delivery, in ms (three days). */
const SWITCHED_OFF_AFTER_MS = 3 * 86_400_000;
/** Derived event ids make a record that is repeated after a crash the same event. */
const RECORD_NAMESPACE = '0d7f1f0b-4a3c-4a55-9c1f-1a0f6ad7b9a2';

/** Attempts deliveries and records the results. */
@Injectable()
export class EventAttempts {
  constructor(
    private readonly deliveries: EventDeliveries,
    private readonly sender: EventSender,
    private readonly aggregates: Aggregates,
    private readonly clock: Clock,
  ) {}

  /**
   * Attempts the deliveries that are due, one for each agent. Returns their number and, if there were none, the time of the next one; null
   * if none is pending.
   */
  async attemptDue(subscription: Subscription, pass: SagaPass): Promise<{ attempted: number; next: Date | null }> {
    const now = this.clock.now();
    const heads = await this.deliveries.heads(subscription.subscriptionId);
    const due = heads.filter(({ next_attempt_at: at }) => at === null || at <= now).slice(0, CONCURRENT_REQUESTS_MAX);
    await Promise.all(due.map((delivery) => this.attempt(subscription, delivery, pass)));
    return { attempted: due.length, next: heads[0]?.next_attempt_at ?? null };
  }

  private async attempt(subscription: Subscription, delivery: EventDelivery, { signal, assertLease }: SagaPass): Promise<void> {
    const posted = await this.sender.send(subscription, delivery, signal, assertLease);
    // An attempt that was aborted, or that the next holder of the lease repeats, is not a failure of the target.
    signal.throwIfAborted();
    assertLease();
    if (posted !== null) await this.record(subscription, delivery, posted);
  }

  private async record(
    subscription: Subscription,
    delivery: EventDelivery,
    { status: responseStatus, failure }: PostResult,
  ): Promise<void> {
    const { subscriptionId } = subscription;
    const now = this.clock.now();
    if (failure === null) {
      await this.deliveries.record(subscriptionId, delivery, { status: 'delivered', responseStatus, at: now, nextAttemptAt: null });
      return;
    }
    const attempts = delivery.attempts + 1;
    const nextAttemptAt = nextAttempt(attempts, now);
    if (nextAttemptAt === null)
      await this.execute(
        subscription,
        { type: 'DeadLetterEvent', eventId: delivery.event_id, attempts, reason: failure },
        `dead ${delivery.event_id} ${delivery.round}`,
      );
    const status = nextAttemptAt === null ? 'dead_letter' : 'pending';
    const failingSince = await this.deliveries.record(subscriptionId, delivery, { status, responseStatus, at: now, nextAttemptAt });
    if (failingSince === null || now.getTime() - failingSince.getTime() < SWITCHED_OFF_AFTER_MS) return;
    const since = failingSince.toISOString();
    await this.execute(subscription, { type: 'SwitchSubscriptionOff', failingSince: since }, `off ${since}`);
  }

  private async execute({ subscriptionId, accountId }: Subscription, command: SubscriptionCommand, step: string): Promise<void> {
    const eventId = () => uuidv5(`${subscriptionId} ${step}`, RECORD_NAMESPACE);
    await this.aggregates.execute(
      subscriptionStream(subscriptionId),
      subscriptionDecider,
      command,
      systemContext('subscriptions', accountId),
      {
        eventId,
      },
    );
  }
}
