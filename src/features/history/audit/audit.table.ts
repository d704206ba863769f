import type { ReadRow } from '../../../postgres/database/table.ts';
import type { ProjectionTable } from '../../../eventsourcing/projections/projection.ts';

/**
 * The number of low bits of a position that the indexes by account, subject, type and actor ignore. Equal keys share one entry of a B-tree,
 * so an index takes about 8 bytes per event instead of 30. An index gives the order of the buckets; the rows of one bucket are sorted when
 * they are read.
 */
const BUCKET_BITS = 13;
export const BUCKET = `((position >> ${BUCKET_BITS})::int)`;
const BUCKET_MAX = 2n ** 31n - 1n;

/** Returns the `BUCKET` of the position. */
export function bucketOf(position: bigint): number {
  const bucket = position >> BigInt(BUCKET_BITS);
  return Number(bucket > BUCKET_MAX ? BUCKET_MAX : bucket);
}

const byBucket = (column: string) => `(${column}, ${BUCKET}) where position > 0`;

/** The columns for the filters and the order of the audit. The event itself is in the log, at the position. */
export const auditTable = {
  key: 'position',
  columns: {
    /** The position of the event. A negative value is the row of a conversation, for the later events in it. */
    position: 'bigint not null',
    at: 'timestamptz(3) not null',
    /** The account; null if the event has none, so that only administrators see it. */
    account_id: 'uuid',
    /** The agent or the computer that the event concerns. */
    subject_id: 'uuid',
    /** The `actorCode` of the actor's id. */
    actor: 'bigint not null',
    /** The `typeCode` of the event's type; 0 in the row of a conversation. */
    type: 'integer not null',
    /** The `kindCode` of the actor's kind. */
    actor_kind: 'smallint not null',
  },
  indexes: {
    by_account: byBucket('account_id'),
    by_subject: byBucket('subject_id'),
    by_type: byBucket('type'),
    by_actor: byBucket('actor'),
    by_kind: byBucket('actor_kind'),
  },
} as const satisfies ProjectionTable;

export type AuditRow = ReadRow<typeof auditTable>;
