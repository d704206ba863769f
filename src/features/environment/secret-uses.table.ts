import { typed } from '../../postgres/database/table.ts';
import type { ProjectionTable } from '../../eventsourcing/projections/projection.ts';

export const secretUsesTable = {
  key: 'agent_id',
  columns: {
    agent_id: 'text collate "C" not null',
    account_id: 'text collate "C" not null',
    /** The variables that take their values from secrets. */
    variables: typed<{ key: string; secret: string }[]>('json not null'),
    /** The secrets, each once. */
    secrets: typed<string[]>('text[] not null'),
  },
  indexes: { by_account: '(account_id, agent_id)' },
} as const satisfies ProjectionTable;
