import { Injectable } from '@nestjs/common';

import { Database } from '../../../postgres/database/database.ts';
import { LEASE_IS_FREE } from '../../../postgres/leases/leases.ts';
import { REPLICA } from '../../../postgres/leases/replica.ts';

/** A connection that its owner does not renew is dead after this many seconds. */
const UNRENEWED_SECONDS_MAX = 30;

/**
 * The SQL condition for a row `w` of a connection that no process serves any more. Owners renew their rows, and hold a lease while they
 * live.
 */
export const IS_DEAD = `(
  w.seen_at < clock_timestamp() - make_interval(secs => ${UNRENEWED_SECONDS_MAX})
  or exists (select from consumer_leases l where l.name = '${REPLICA}' || w.owner and ${LEASE_IS_FREE}))`;

export const IS_WATCHED = `not ${IS_DEAD}`;

/** Determines whether a viewer is connected to a computer, on any replica. */
@Injectable()
export class ViewerWatch {
  constructor(private readonly database: Database) {}

  async isWatched(computerId: string): Promise<boolean> {
    const [row] = await this.database.query<{ watched: boolean }>(
      `select exists (select from viewer_connections w where w.computer_id = $1 and ${IS_WATCHED}) as watched`,
      [computerId],
    );
    return row?.watched ?? false;
  }
}
