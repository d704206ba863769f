import { QueryHandler, type IQueryHandler } from '@nestjs/cqrs';

import { Database } from '../../postgres/database/database.ts';
import { entityOf, newestFirst } from '../../postgres/database/entities.ts';
import { idOf, type StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import { evolvedRow } from '../../eventsourcing/projections/tables/evolved-row.ts';
import { ReadModels, tableOf, type Projection } from '../../eventsourcing/projections/projection.ts';
import { agentActivityTable, type KnownSandbox, type SandboxOfAccount } from '../../sandboxes/index.ts';
import { HOLD_COUNTS, IDLE_FROM } from '../../sandboxes/services.ts';
import { evolve, type Agent } from './aggregate/agent-state.rules.ts';
import { agentNotFound } from './aggregate/agents.errors.ts';
import type { AgentEvent } from './aggregate/agents.events.ts';
import { ListAgentsThatMayWrite, ListAllAgents, GetAgent, ListAgents, ListLiveAgentIds } from './agents.queries.ts';
import { agentRow, type AgentRow, agentsReadModel, agentsTable, type AgentColumns } from './agents.table.ts';

/** Lists the agents that are not deleted. Each row is the decider's state of the stream, so that rules and responses can't differ. */
export const agentsProjection: Projection<typeof agentsTable> = {
  ...agentsReadModel,
  filter: { eventClass: 'core', categories: ['agent'] },
  table: agentsTable,
  keys: (event) => [idOf(event.stream)],
  project(stored: StoredEvent, rows) {
    const agent_id = idOf(stored.stream);
    const row = rows.get(agent_id);
    const { state, revision, createdAt, changedAt } = evolvedRow(evolve, row, stored as StoredEvent & AgentEvent);
    if (state !== null && state.status !== 'deleted') rows.set(agent_id, agentRow(agent_id, { state, revision, createdAt, changedAt }));
    else if (row !== undefined) rows.delete(agent_id);
  },
};

const activityRows = entityOf('agent_activity', agentActivityTable);
const agentRows = entityOf(tableOf(agentsProjection), agentsTable, { activity: activityRows });

/** The most frequent read: a prepared statement that selects only what is shown. */
const FIND = `
  select agent_id, state, revision, created_at, updated_at, last_active_at
    from ${tableOf(agentsProjection)} left join agent_activity using (agent_id) where agent_id = $1 and account_id = $2`;

type AgentColumnsRow = Omit<AgentColumns, 'activity'> & { last_active_at: Date | null };

@QueryHandler(GetAgent)
export class GetAgentHandler implements IQueryHandler<GetAgent> {
  constructor(
    private readonly database: Database,
    private readonly readModels: ReadModels,
  ) {}

  async execute({ accountId, agentId }: GetAgent): Promise<AgentColumns> {
    const { rows } = await this.database.pool.query<AgentColumnsRow>({ name: 'agent', text: FIND, values: [agentId, accountId] });
    const [row] = rows;
    if (row !== undefined) {
      const { last_active_at, ...columns } = row;
      return { ...columns, activity: last_active_at && { agent_id: agentId, last_active_at } };
    }
    await this.readModels.waitUntilFilled(agentsProjection.name);
    throw agentNotFound();
  }
}

@QueryHandler(ListAgents)
export class ListAgentsHandler implements IQueryHandler<ListAgents> {
  constructor(private readonly database: Database) {}

  execute({ accountId, externalId, ...page }: ListAgents): Promise<AgentRow[]> {
    const query = this.database.dataSource
      .getRepository(agentRows)
      .createQueryBuilder('agent')
      .leftJoinAndSelect('agent.activity', 'activity')
      .where('agent.account_id = :accountId', { accountId });
    if (externalId !== null) query.andWhere('agent.external_id = :externalId', { externalId });
    return newestFirst(query, ['agent.created_at', 'agent.agent_id'], page).getMany();
  }
}

@QueryHandler(ListAllAgents)
export class ListAllAgentsHandler implements IQueryHandler<ListAllAgents> {
  constructor(private readonly database: Database) {}

  async execute({ after, limit }: ListAllAgents): Promise<KnownSandbox<Agent>[]> {
    const rows = await this.database.query<Pick<AgentRow, 'agent_id' | 'state'> & { last_active_at: Date | null; held: boolean }>(
      `select a.agent_id, a.state, ${IDLE_FROM} as last_active_at,
              exists (select from agent_holds h where h.agent_id = a.agent_id and ${HOLD_COUNTS}) as held
         from ${tableOf(agentsProjection)} a left join agent_activity v on v.agent_id = a.agent_id
        where a.agent_id > $1 order by a.agent_id limit $2`,
      [after ?? '', limit],
    );
    return rows.map(({ agent_id: sandboxId, state: sandbox, last_active_at: lastActiveAt, held }) => ({
      sandboxId,
      sandbox,
      lastActiveAt,
      held,
      // A process that ended leaves nothing of an agent half done.
      abandonedBy: null,
    }));
  }
}

@QueryHandler(ListAgentsThatMayWrite)
export class ListAgentsThatMayWriteHandler implements IQueryHandler<ListAgentsThatMayWrite> {
  constructor(private readonly database: Database) {}

  async execute({ since }: ListAgentsThatMayWrite): Promise<SandboxOfAccount[]> {
    const rows = await this.database.query<Pick<AgentRow, 'agent_id' | 'account_id'>>(
      `select agent_id, account_id from ${tableOf(agentsProjection)}
        where status in ('deploying', 'active', 'starting', 'stopping', 'restarting', 'waking')
           or (status = 'sleeping' and updated_at > $1)
           or (status = 'error' and state->>'failure' in ('timeout', 'runtime'))
        limit 20000`,
      [since],
    );
    return rows.map((row) => ({ sandboxId: row.agent_id, accountId: row.account_id }));
  }
}

@QueryHandler(ListLiveAgentIds)
export class ListLiveAgentIdsHandler implements IQueryHandler<ListLiveAgentIds> {
  constructor(private readonly database: Database) {}

  async execute(): Promise<string[]> {
    const rows = await this.database.query<Pick<AgentRow, 'agent_id'>>(
      `select agent_id from ${tableOf(agentsProjection)}
        where status in ('deploying', 'active', 'starting', 'stopping', 'restarting', 'waking', 'error', 'deleting')
           or (status = 'sleeping' and sleep_depth = 'frozen')`,
    );
    return rows.map((row) => row.agent_id);
  }
}
