/*
 * Sends the events of accounts to the addresses that subscribed to them. A key is one subscription.
 *
 * It owns the loop of one pass: apply orders, take up wanted events, attempt what is due. It does not own the stored state
 * (`EventDeliveries`), which events are wanted (`EventIntake`), or the requests (`EventAttempts`).
 *
 * Invariants:
 * P1. Every wanted event is sent at least once, and in the order of the log for each agent.
 * P2. What wakes a pass is only a hint. A pass starts at the stored position, so that no event is skipped over a crash, a rebuild or a
 *     change of replica (decisions/0033).
 * P3. Requests are made without a slot of the saga, so that a slow target delays no other subscription.
 */

import { Injectable, type OnModuleInit } from '@nestjs/common';

import { Keyring } from '../../crypto/keyring.ts';
import { Aggregates } from '../../eventsourcing/aggregates/aggregates.ts';
import { idOf, type StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import { sagaStep } from '../../eventsourcing/sagas/saga-step.ts';
import { type Saga, type SagaKey, type SagaPass, Sagas } from '../../eventsourcing/sagas/saga.ts';
import { EventAttempts } from './event-attempts.service.ts';
import { EventIntake } from './event-intake.service.ts';
import { type Subscription, subscriptionDecider, subscriptionStream } from './subscriptions.decider.ts';

/** A pass ends after this many rounds, so that the next one loads the newest state of the subscription. */
const ROUNDS_OF_PASS = 50;

/**
 * Sends the events of accounts to their subscriptions, at least once and in the order of the log for each agent. Each subscription has a
 * position in the log; the wanted events before it are stored as deliveries.
 */
@Injectable()
export class SubscriptionsSaga implements Saga, OnModuleInit {
  readonly name = 'subscriptions';
  readonly filter = { eventClass: 'core' as const, categories: ['subscription'] };
  readonly concurrency = 16;

  constructor(
    private readonly sagas: Sagas,
    private readonly aggregates: Aggregates,
    private readonly intake: EventIntake,
    private readonly attempts: EventAttempts,
    private readonly keyring: Keyring,
  ) {}

  onModuleInit(): void {
    this.sagas.register(this);
  }

  keyOf(event: StoredEvent): string {
    return idOf(event.stream);
  }

  resync(): Promise<SagaKey[]> {
    return this.intake.findUnfinished();
  }

  async reconcile(subscriptionId: string, pass: SagaPass): Promise<Date | null> {
    const { state: subscription, revision } = await this.aggregates.load(subscriptionStream(subscriptionId), subscriptionDecider);
    if (subscription === null) return null;
    pass.setAccount(subscription.accountId);
    if (subscription.deleted) return this.end(subscriptionId);
    await this.intake.applyOrders(subscription, revision);
    return subscription.active ? this.serve(subscription, pass) : null;
  }

  private async serve(subscription: Subscription, pass: SagaPass): Promise<Date | null> {
    for (let round = 0; round < ROUNDS_OF_PASS; round += 1) {
      // P2
      const taken = await this.intake.enqueueWanted(subscription);
      // P3
      const { attempted, next } = await pass.withoutSlot(() => this.attempts.attemptDue(subscription, pass));
      sagaStep(this.name, subscription.subscriptionId, 'attempted');
      // At the bound on pending events, only a finished delivery makes room for more.
      if (attempted === 0 && taken !== 'some') return next;
    }
    return new Date();
  }

  /** Destroys the key that encrypts the subscription's address and secret, and removes its deliveries. */
  private async end(subscriptionId: string): Promise<null> {
    await this.keyring.shred(subscriptionId);
    await this.intake.deleteAll(subscriptionId);
    return null;
  }
}
