import { type IQueryHandler, QueryBus, QueryHandler } from '@nestjs/cqrs';

import { GetAgent } from '../agents/index.ts';
import { Database } from '../../postgres/database/database.ts';
import { entityOf, newestFirst } from '../../postgres/database/entities.ts';
import type { WrittenRow } from '../../postgres/database/table.ts';
import type { StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import { type Projection, tableOf } from '../../eventsourcing/projections/projection.ts';
import { commandNotFound } from './commands.decider.ts';
import type { CommandEvent } from './commands.events.ts';
import { type AgentWithCommands, GetCommand, ListAgentsWithCommands, ListCommands } from './commands.queries.ts';
import { type CommandRow, commandsTable, statusOf } from './commands.table.ts';

const types = ['AgentCommandStarted', 'AgentCommandEnded', 'AgentCommandRemoved'] as const;
type ShownEvent = Extract<CommandEvent, { type: (typeof types)[number] }>;
type WrittenCommand = WrittenRow<typeof commandsTable>;

export const commandsProjection: Projection<typeof commandsTable> = {
  name: 'commands',
  version: 1,
  filter: { eventClass: 'core', categories: ['commands'], types },
  table: commandsTable,
  keys(stored) {
    const { type, data } = stored as unknown as ShownEvent;
    return type === 'AgentCommandEnded' && data.drops !== null ? [data.command_id, data.drops] : [data.command_id];
  },
  project(stored, rows) {
    const event = stored as unknown as ShownEvent;
    const { command_id } = event.data;
    if (event.type === 'AgentCommandStarted') return rows.set(command_id, started(stored, event.data));
    if (event.type === 'AgentCommandRemoved') return rows.delete(command_id);
    const row = rows.get(command_id);
    const { end, exit_code, output_bytes, dropped_bytes, drops } = event.data;
    if (drops !== null) rows.delete(drops);
    if (row === undefined) return;
    rows.set(command_id, {
      ...row,
      status: statusOf(end),
      exit_code,
      output_bytes: output_bytes?.toString() ?? null,
      dropped_bytes: dropped_bytes?.toString() ?? null,
      ended_at: stored.at,
    });
  },
};

function started(stored: StoredEvent, data: Extract<ShownEvent, { type: 'AgentCommandStarted' }>['data']): WrittenCommand {
  const { agent_id, command_id, generation, command, started_at, keep_awake_until } = data;
  return {
    command_id,
    agent_id,
    account_id: stored.metadata.account_id ?? '',
    generation,
    status: 'running',
    command,
    keep_awake_until,
    exit_code: null,
    output_bytes: null,
    dropped_bytes: null,
    started_at,
    ended_at: null,
  };
}

const COMMANDS = tableOf(commandsProjection);
const commandRows = entityOf(COMMANDS, commandsTable);

@QueryHandler(GetCommand)
export class GetCommandHandler implements IQueryHandler<GetCommand> {
  constructor(
    private readonly database: Database,
    private readonly queries: QueryBus,
  ) {}

  async execute({ accountId, agentId, commandId }: GetCommand): Promise<CommandRow> {
    await this.queries.execute(new GetAgent(accountId, agentId));
    const row = await this.database.dataSource.getRepository(commandRows).findOneBy({ command_id: commandId, agent_id: agentId });
    if (row === null) throw commandNotFound();
    return row;
  }
}

@QueryHandler(ListCommands)
export class ListCommandsHandler implements IQueryHandler<ListCommands> {
  constructor(
    private readonly database: Database,
    private readonly queries: QueryBus,
  ) {}

  async execute({ accountId, agentId, ...page }: ListCommands): Promise<CommandRow[]> {
    await this.queries.execute(new GetAgent(accountId, agentId));
    const query = this.database.dataSource.getRepository(commandRows).createQueryBuilder('c').where('c.agent_id = :agentId', { agentId });
    return newestFirst(query, ['c.started_at', 'c.command_id'], page).getMany();
  }
}

@QueryHandler(ListAgentsWithCommands)
export class ListAgentsWithCommandsHandler implements IQueryHandler<ListAgentsWithCommands> {
  constructor(private readonly database: Database) {}

  execute(): Promise<AgentWithCommands[]> {
    return this.database.query<AgentWithCommands & Record<string, unknown>>(
      `select agent_id as "agentId", min(account_id) as "accountId", array_agg(command_id) as "commandIds", min(generation) as "generation"
         from ${COMMANDS} where status = 'running' group by agent_id`,
    );
  }
}
