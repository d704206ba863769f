import type { ProjectionTable } from '../../../eventsourcing/projections/projection.ts';

/** The use of each computer on each day, UTC. */
export const computerCountsTable = {
  key: 'count_id',
  columns: {
    /** The computer and the day: `<computer>:<day>`. */
    count_id: 'text collate "C" not null',
    computer_id: 'text collate "C" not null',
    account_id: 'text collate "C" not null',
    /** The begin of the day. */
    day: 'timestamptz(3) not null',
    actions: 'integer not null',
    screenshots: 'integer not null',
    exec_calls: 'integer not null',
    viewer_seconds: 'integer not null',
  },
  indexes: {
    by_account: '(account_id, day)',
    by_computer: '(computer_id, day)',
  },
} as const satisfies ProjectionTable;
