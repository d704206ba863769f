import type { Table } from '../../postgres/database/table.ts';

/** The times of the agents' last uses. `Activity` writes them; they do not come from events. */
export const agentActivityTable = {
  key: 'agent_id',
  columns: {
    agent_id: 'text not null',
    last_active_at: 'timestamptz not null',
    /** The time until which it counts as used although nobody uses it; null if it does not. */
    kept_until: 'timestamptz',
  },
} as const satisfies Table;
