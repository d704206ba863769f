import { type ReadRow, typed } from '../../postgres/database/table.ts';
import type { ProjectionTable } from '../../eventsourcing/projections/projection.ts';

export const seatsTable = {
  key: 'sandbox_id',
  columns: {
    /** The sandbox id of the agent or the computer that has the seat. */
    sandbox_id: 'text collate "C" not null',
    account_id: 'text collate "C" not null',
    taken_at: 'timestamptz(3) not null',
    holder: typed<'absent' | 'live' | 'deleted'>('text not null'),
  },
  indexes: { without_holder: `(sandbox_id) where holder <> 'live'` },
} as const satisfies ProjectionTable;

export type SeatRow = ReadRow<typeof seatsTable>;
