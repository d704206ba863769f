import { Query } from '@nestjs/cqrs';

import type { ShownStatus } from './aggregate/computer-state.rules.ts';
import type { ComputerView } from './rows/computers.table.ts';

/** Returns the account's computer. Throws `computer_not_found`. */
export class GetComputer extends Query<ComputerView> {
  constructor(
    readonly accountId: string,
    readonly computerId: string,
  ) {
    super();
  }
}

/** Lists the account's computers, newest first. */
export class ListComputers extends Query<ComputerView[]> {
  constructor(
    readonly accountId: string,
    /** Selects the computer of this end user, and computers with this status; null selects all. */
    readonly chosen: { endUserId: string | null; status: ShownStatus | null },
    readonly limit: number,
    /** The `created_at` and `computer_id` of the last computer on the previous page. */
    readonly after: readonly [string, string] | null,
  ) {
    super();
  }
}
