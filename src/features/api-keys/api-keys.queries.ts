import { Query } from '@nestjs/cqrs';

import type { ApiKeyRow } from './api-keys.table.ts';

/** Lists the account's keys, newest first. */
export class ListApiKeys extends Query<ApiKeyRow[]> {
  constructor(
    readonly accountId: string,
    readonly limit: number,
    /** The `created_at` and `key_id` of the last key on the previous page. */
    readonly after: readonly [string, string] | null,
  ) {
    super();
  }
}

/** Lists the keys whose expiry is not recorded yet, each with its account. */
export class ListEndedApiKeys extends Query<{ key: string; account: string }[]> {}
