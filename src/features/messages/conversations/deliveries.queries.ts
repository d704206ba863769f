import { Query } from '@nestjs/cqrs';

import type { DeliveryRow, DeliveryStatus } from './deliveries.table.ts';

/** Returns the delivery of the message, of any agent, from the read model; null if there is none. */
export class FindDelivery extends Query<DeliveryRow | null> {
  constructor(readonly messageId: string) {
    super();
  }
}

/** Lists the agent's deliveries, the latest first. Throws `agent_not_found`. */
export class ListDeliveries extends Query<DeliveryRow[]> {
  constructor(
    readonly agentId: string,
    readonly accountId: string,
    readonly status: DeliveryStatus | null,
    readonly limit: number,
    /** The `accepted_at` and id of the last delivery on the previous page. */
    readonly after: readonly [string, string] | null,
  ) {
    super();
  }
}
