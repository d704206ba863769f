import { Query } from '@nestjs/cqrs';

import type { SubscriptionRow } from './subscriptions.table.ts';

/** Lists the account's subscriptions, newest first. */
export class ListSubscriptions extends Query<SubscriptionRow[]> {
  constructor(
    readonly accountId: string,
    readonly limit: number,
    /** The `created_at` and `subscription_id` of the last one on the previous page. */
    readonly after: readonly [string, string] | null,
  ) {
    super();
  }
}

export interface SubscriptionSummary {
  subscriptionId: string;
  accountId: string;
  active: boolean;
}

/** Lists the subscriptions of all accounts. */
export class ListAllSubscriptions extends Query<SubscriptionSummary[]> {}
