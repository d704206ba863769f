import type { Database } from '../database/database.ts';
import { LEASE_IS_FREE, TTL_MS } from './leases.ts';
import { REPLICA } from './replica.ts';

/** The last renewals, at or before $2, of the leases of replicas that have ended. A released lease counts as renewed $1 ms before that. */
const LAST_SIGN = `
  select max(seen_at) as seen_at
    from (select l.expires_at - $1 * interval '1 millisecond' as seen_at from consumer_leases l where l.name like '${REPLICA}%' and ${LEASE_IS_FREE}) as ended
   where seen_at <= $2`;

/**
 * Returns the latest time, not after the given one, at which a replica that has ended since is known to have been alive; null if none is
 * known.
 */
export async function lastSignOfEnded(database: Database, latest: Date): Promise<Date | null> {
  const [row] = await database.query<{ seen_at: Date | null }>(LAST_SIGN, [TTL_MS, latest]);
  return row?.seen_at ?? null;
}
