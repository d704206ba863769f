import { type ReadRow, typed } from '../../postgres/database/table.ts';
import type { ProjectionTable } from '../../eventsourcing/projections/projection.ts';
import type { agentActivityTable } from '../../sandboxes/index.ts';
import type { Agent } from './aggregate/agent-state.decider.ts';

export const agentsTable = {
  key: 'agent_id',
  columns: {
    agent_id: 'text collate "C" not null',
    account_id: 'text collate "C" not null',
    external_id: 'text collate "C"',
    status: 'text not null',
    sleep_depth: 'text',
    /** The decider's state, from which the other columns are derived. */
    state: typed<Agent>('json not null'),
    /** The revision of the agent's stream. */
    revision: 'integer not null',
    created_at: 'timestamptz(3) not null',
    updated_at: 'timestamptz(3) not null',
  },
  indexes: {
    by_account: '(account_id, created_at desc, agent_id desc)',
    by_external_id: '(account_id, external_id) where external_id is not null',
    by_status: '(status)',
  },
} as const satisfies ProjectionTable;

type LastUse = Pick<ReadRow<typeof agentActivityTable>, 'agent_id' | 'last_active_at'>;

/** One agent that is not deleted, with its last use. */
export type AgentRow = ReadRow<typeof agentsTable> & { activity: LastUse | null };

/** The columns of an agent that answers show. */
export type ShownColumns = Pick<AgentRow, 'agent_id' | 'state' | 'revision' | 'created_at' | 'updated_at' | 'activity'>;

/** An agent as answers show it, with its public address; null if it is not public. */
export type ShownAgent = ShownColumns & { public_url: string | null };
