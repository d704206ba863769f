import { Injectable } from '@nestjs/common';

import { Database } from '../../../postgres/database/database.ts';
import { LEASE_IS_FREE } from '../../../postgres/leases/leases.ts';
import { REPLICA } from '../../../postgres/leases/replica.ts';

/** The seconds after which a connection that its owner does not renew has ended. */
const UNSEEN_SECONDS_MAX = 30;

/** The condition that nobody passes on the connection in a row `w` any more. Owners renew rows, and hold a lease while they live. */
export const IS_DEAD = `(
  w.seen_at < clock_timestamp() - make_interval(secs => ${UNSEEN_SECONDS_MAX})
  or exists (select from consumer_leases l where l.name = '${REPLICA}' || w.owner and ${LEASE_IS_FREE}))`;

export const IS_WATCHED = `not ${IS_DEAD}`;

/** Knows whether somebody sees a computer, on whatever replica. */
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
