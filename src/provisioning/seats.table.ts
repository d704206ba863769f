import { type ReadRow, typed } from '../platform/database/table.ts';
import type { ProjectionTable } from '../platform/projections/projection.ts';

export const seatsTable = {
  key: 'agent_id',
  columns: {
    agent_id: 'text collate "C" not null',
    account_id: 'text collate "C" not null',
    taken_at: 'timestamptz(3) not null',
    agent: typed<'absent' | 'live' | 'deleted'>('text not null'),
  },
  indexes: { without_agent: `(agent_id) where agent <> 'live'` },
} as const satisfies ProjectionTable;

export type SeatRow = ReadRow<typeof seatsTable>;
