import { Query } from '@nestjs/cqrs';

import type { SessionRow, SessionStatus } from './viewer-sessions.table.ts';

/** Lists the sessions of the computer, newest first. The caller has checked that the computer belongs to the account. */
export class ListSessions extends Query<SessionRow[]> {
  constructor(
    readonly computerId: string,
    readonly status: SessionStatus | null,
    readonly limit: number,
    /** The `created_at` and id of the last session on the previous page. */
    readonly after: readonly [string, string] | null,
  ) {
    super();
  }
}
