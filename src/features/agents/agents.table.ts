import { asRead, type ReadRow, typed, type WrittenRow } from '../../postgres/database/table.ts';
import type { Loaded } from '../../eventsourcing/aggregates/dated-state.ts';
import type { ProjectionTable } from '../../eventsourcing/projections/projection.ts';
import type { agentActivityTable } from '../../sandboxes/index.ts';
import type { Agent } from './aggregate/agent-state.rules.ts';

/** The read model of agents, by which its table is named (`tableOf`). */
export const agentsReadModel = { name: 'agents', version: 4 } as const;

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

/** Returns the row of an agent in this state. The projection writes it, and a write is answered with it. */
export function agentRow(agent_id: string, agent: Omit<Loaded<Agent>, 'position'>): WrittenRow<typeof agentsTable> {
  const { state, revision, createdAt: created_at, changedAt: updated_at } = agent;
  const { accountId: account_id, externalId: external_id, status, sleepDepth: sleep_depth } = state;
  return { agent_id, account_id, external_id, status, sleep_depth, state, revision, created_at, updated_at };
}

/** Returns the agent in this state as a read of its row would show it. */
export function readAgent(agentId: string, agent: Loaded<Agent>, lastActiveAt: Date | null): AgentRow {
  const activity = lastActiveAt && { agent_id: agentId, last_active_at: lastActiveAt };
  return { ...asRead(agentsTable, agentRow(agentId, agent)), activity };
}

/** One agent that is not deleted, with its last use. */
export type AgentRow = ReadRow<typeof agentsTable> & { activity: LastUse | null };

/** The columns of an agent that responses show. */
export type AgentColumns = Pick<AgentRow, 'agent_id' | 'state' | 'revision' | 'created_at' | 'updated_at' | 'activity'>;

/** An agent as responses show it, with its public address; null if it is not public. */
export type AgentView = AgentColumns & { public_url: string | null };
