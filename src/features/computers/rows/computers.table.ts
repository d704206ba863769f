import { asRead, type ReadRow, typed, type WrittenRow } from '../../../postgres/database/table.ts';
import type { Loaded } from '../../../eventsourcing/aggregates/dated-state.ts';
import type { ProjectionTable } from '../../../eventsourcing/projections/projection.ts';
import { shownStatus, type Computer, type ShownStatus } from '../aggregate/computer-state.rules.ts';

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

/** Returns the row of a computer in this state. The projection writes it, and a write is answered with it. */
export function computerRow(computer_id: string, computer: Omit<Loaded<Computer>, 'position'>): WrittenRow<typeof computersTable> {
  const { state, revision, createdAt: created_at, changedAt: updated_at } = computer;
  const { accountId: account_id, endUserId: end_user_id, sleepDepth: sleep_depth, image } = state;
  const status = shownStatus(state);
  return { computer_id, account_id, end_user_id, status, sleep_depth, state, image, revision, created_at, updated_at };
}

/** Returns the computer in this state as a read of its row would show it. */
export function readComputer(computerId: string, computer: Loaded<Computer>, lastActiveAt: Date | null): ComputerView {
  return { ...asRead(computersTable, computerRow(computerId, computer)), last_active_at: lastActiveAt };
}

export type ComputerRow = ReadRow<typeof computersTable>;

/** A computer as responses show it, with the time of its last use; null if it was never used. */
export type ComputerView = Pick<ComputerRow, 'computer_id' | 'state' | 'revision' | 'created_at' | 'updated_at'> & {
  last_active_at: Date | null;
};
