import { type ReadRow, typed } from '../../../postgres/database/table.ts';
import type { ProjectionTable } from '../../../eventsourcing/projections/projection.ts';
import type { Computer, ShownStatus } from '../aggregate/computer-state.decider.ts';

export const computersTable = {
  key: 'computer_id',
  columns: {
    computer_id: 'text collate "C" not null',
    account_id: 'text collate "C" not null',
    end_user_id: 'text collate "C" not null',
    /** The status that callers see. */
    status: typed<ShownStatus>('text not null'),
    sleep_depth: 'text',
    /** The decider's state, from which the other columns are derived. */
    state: typed<Computer>('json not null'),
    /** The image of its container on the engine; null until it is there. */
    image: 'text',
    /** The revision of the computer's stream. */
    revision: 'integer not null',
    created_at: 'timestamptz(3) not null',
    updated_at: 'timestamptz(3) not null',
  },
  indexes: {
    by_account: '(account_id, created_at desc, computer_id desc)',
    by_end_user: '(account_id, end_user_id)',
    by_status: '(status, sleep_depth)',
    by_image: '(image) where image is not null',
  },
} as const satisfies ProjectionTable;

export type ComputerRow = ReadRow<typeof computersTable>;

/** A computer as answers show it, with the time of its last use; null if it was never used. */
export type ShownComputer = Pick<ComputerRow, 'computer_id' | 'state' | 'revision' | 'created_at' | 'updated_at'> & {
  last_active_at: Date | null;
};
