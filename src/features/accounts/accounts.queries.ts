import { Query } from '@nestjs/cqrs';

import type { AccountRow } from './accounts.table.ts';

/** Returns the account from the read model. Throws `account_not_found`. */
export class GetAccount extends Query<AccountRow> {
  constructor(readonly accountId: string) {
    super();
  }
}

/** Lists all accounts, newest first. */
export class ListAccounts extends Query<AccountRow[]> {
  constructor(
    readonly limit: number,
    /** The `created_at` and `account_id` of the last account on the previous page. */
    readonly after: readonly [string, string] | null,
  ) {
    super();
  }
}
