import { typed } from '../../../postgres/database/table.ts';
import type { ProjectionTable } from '../../../eventsourcing/projections/projection.ts';
import type { ComputerSize } from '../aggregate/computers.events.ts';

/** The times awake of all computers, including deleted ones: one row for each that is over, and one for each existing computer. */
export const computerIntervalsTable = {
  key: 'interval_id',
  columns: {
    /** The value is `open:<computer>` for the row of a computer, and `<computer>:<position>` for a time awake that is over. */
    interval_id: 'text collate "C" not null',
    computer_id: 'text collate "C" not null',
    account_id: 'text collate "C" not null',
    end_user_id: 'text collate "C" not null',
    size: typed<ComputerSize>('text not null'),
    /** The begin of the time awake; null while the computer of an open row is not awake. */
    started_at: 'timestamptz(3)',
    /** The end of the time awake; null in an open row. */
    ended_at: 'timestamptz(3)',
  },
  indexes: {
    by_account_end: '(account_id, ended_at)',
    open: '(account_id) where ended_at is null',
    by_end_user: '(account_id, end_user_id)',
    by_computer: '(computer_id, ended_at)',
  },
} as const satisfies ProjectionTable;
