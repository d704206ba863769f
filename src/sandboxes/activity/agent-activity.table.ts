import type { Table } from '../../postgres/database/table.ts';

/** The times of the agents' last uses. `Activity` writes them; they do not come from events. */
export const agentActivityTable = {
  key: 'agent_id',
  columns: {
    agent_id: 'text not null',
    last_active_at: 'timestamptz not null',
    /** The time until which the agent counts as used although it is not; null if there is none. */
    kept_until: 'timestamptz',
  },
} as const satisfies Table;
