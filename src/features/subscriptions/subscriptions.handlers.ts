import { CommandHandler, type ICommandHandler, QueryBus } from '@nestjs/cqrs';
import { v5 as uuidv5, v7 as uuidv7 } from 'uuid';

import { Keyring } from '../../crypto/keyring.ts';
import { invalidField, ProblemError } from '../../kernel/errors/problem-error.ts';
import { Aggregates } from '../../eventsourcing/aggregates/aggregates.ts';
import type { DatedState } from '../../eventsourcing/aggregates/dated-state.ts';
import { EventDeliveries } from './delivery/event-deliveries.ts';
import { newSecret, sealingContext } from './delivery/event-sender.service.ts';
import { Targets } from './delivery/targets.ts';
import {
  ChangeSubscription,
  CreateSubscription,
  type CreatedSubscription,
  DeleteSubscription,
  RedeliverEvent,
} from './subscriptions.commands.ts';
import {
  ownedSubscription,
  type SealedTarget,
  type Subscription,
  subscriptionDecider,
  subscriptionStream,
} from './subscriptions.decider.ts';
import { ListSubscriptions } from './subscriptions.queries.ts';

/** The most subscriptions of one account. Concurrent requests can create a few more. */
const SUBSCRIPTIONS_MAX = 50;

/** Checks the address and encrypts it for the subscription. Throws `invalid_request`. */
async function sealTarget(targets: Targets, keyring: Keyring, subscriptionId: string, url: string): Promise<SealedTarget> {
  const message = await targets.problemOf(url);
  if (message !== null) throw invalidField('url', message);
  return { host: new URL(url).host, url: await keyring.seal(subscriptionId, sealingContext(subscriptionId, 'url'), url) };
}

@CommandHandler(CreateSubscription)
export class CreateSubscriptionHandler implements ICommandHandler<CreateSubscription> {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly keyring: Keyring,
    private readonly targets: Targets,
    private readonly queries: QueryBus,
  ) {}

  async execute({ context, accountId, url, choice, seed }: CreateSubscription): Promise<CreatedSubscription> {
    const subscriptionId = seed === null ? uuidv7() : uuidv5('subscription', seed);
    if ((await this.queries.execute(new ListSubscriptions(accountId, SUBSCRIPTIONS_MAX, null))).length >= SUBSCRIPTIONS_MAX)
      throw new ProblemError('rate_limited', `The account has ${SUBSCRIPTIONS_MAX} subscriptions already; delete one.`, {
        retryAfterSeconds: 60,
      });
    const target = await sealTarget(this.targets, this.keyring, subscriptionId, url);
    const secret = await this.keyring.seal(subscriptionId, sealingContext(subscriptionId, 'secret'), newSecret());
    const { state, ...dates } = await this.aggregates.execute(
      subscriptionStream(subscriptionId),
      subscriptionDecider,
      { type: 'CreateSubscription', accountId, subscriptionId, ...target, secret, ...choice },
      context,
    );
    // The attempt of this request that created it may have crashed before it returned the secret.
    const created = ownedSubscription(state, accountId);
    const shown = await this.keyring.open(subscriptionId, sealingContext(subscriptionId, 'secret'), created.secret);
    if (shown === null) throw new ProblemError('not_found', 'There is no such subscription.');
    return { subscription: { ...dates, state: created }, secret: shown };
  }
}

@CommandHandler(ChangeSubscription)
export class ChangeSubscriptionHandler implements ICommandHandler<ChangeSubscription> {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly keyring: Keyring,
    private readonly targets: Targets,
  ) {}

  async execute({
    context,
    accountId,
    subscriptionId,
    changes: { url, ...others },
  }: ChangeSubscription): Promise<DatedState<Subscription>> {
    const stream = subscriptionStream(subscriptionId);
    // Ownership is checked first, so that another account can't create a data key for this subscription.
    if (url !== undefined) ownedSubscription((await this.aggregates.load(stream, subscriptionDecider)).state, accountId);
    const target = url === undefined ? {} : { target: await sealTarget(this.targets, this.keyring, subscriptionId, url) };
    const command = { type: 'ChangeSubscription' as const, accountId, changes: { ...others, ...target } };
    const changed = await this.aggregates.execute(stream, subscriptionDecider, command, context);
    return { ...changed, state: ownedSubscription(changed.state, accountId) };
  }
}

@CommandHandler(DeleteSubscription)
export class DeleteSubscriptionHandler implements ICommandHandler<DeleteSubscription> {
  constructor(private readonly aggregates: Aggregates) {}

  async execute({ context, accountId, subscriptionId }: DeleteSubscription): Promise<void> {
    const command = { type: 'DeleteSubscription' as const, accountId };
    await this.aggregates.execute(subscriptionStream(subscriptionId), subscriptionDecider, command, context);
  }
}

@CommandHandler(RedeliverEvent)
export class RedeliverEventHandler implements ICommandHandler<RedeliverEvent> {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly deliveries: EventDeliveries,
  ) {}

  async execute({ context, accountId, subscriptionId, eventId }: RedeliverEvent): Promise<void> {
    const stream = subscriptionStream(subscriptionId);
    const { state } = await this.aggregates.load(stream, subscriptionDecider);
    ownedSubscription(state, accountId);
    if ((await this.deliveries.find(subscriptionId, eventId)) === null) throw new ProblemError('not_found', 'There is no such delivery.');
    await this.aggregates.execute(stream, subscriptionDecider, { type: 'RequestEventRedelivery', accountId, eventId }, context);
  }
}
