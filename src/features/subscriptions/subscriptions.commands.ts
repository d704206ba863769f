import { Command } from '@nestjs/cqrs';

import type { DatedState } from '../../eventsourcing/aggregates/dated-state.ts';
import type { CommandContext } from '../../kernel/context/command-context.ts';
import type { EventChoice, Subscription } from './subscriptions.decider.ts';

export interface CreatedSubscription {
  subscription: DatedState<Subscription>;
  /** The secret that signs the requests. It is shown only once. */
  secret: string;
}

/** Subscribes an address to the account's events from now on. Throws `invalid_request`, and `rate_limited` at 50 subscriptions. */
export class CreateSubscription extends Command<CreatedSubscription> {
  constructor(
    readonly context: CommandContext,
    readonly accountId: string,
    readonly url: string,
    readonly choice: EventChoice,
    /** A UUID that is the same for every try of the request; null means that there is no other try. */
    readonly seed: string | null,
  ) {
    super();
  }
}

/** Changes the members that are given, and returns the subscription after it. Throws `not_found` and `invalid_request`. */
export class ChangeSubscription extends Command<DatedState<Subscription>> {
  constructor(
    readonly context: CommandContext,
    readonly accountId: string,
    readonly subscriptionId: string,
    readonly changes: { url?: string; types?: string[] | null; active?: boolean },
  ) {
    super();
  }
}

/** Ends the subscription. Pending events are not sent any more. Throws `not_found`. */
export class DeleteSubscription extends Command<void> {
  constructor(
    readonly context: CommandContext,
    readonly accountId: string,
    readonly subscriptionId: string,
  ) {
    super();
  }
}

/** Requests that a delivered or dead-lettered event be sent again. Throws `not_found`. */
export class RedeliverEvent extends Command<void> {
  constructor(
    readonly context: CommandContext,
    readonly accountId: string,
    readonly subscriptionId: string,
    readonly eventId: string,
  ) {
    super();
  }
}
