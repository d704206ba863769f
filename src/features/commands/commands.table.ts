import type { Sealed } from '../../crypto/keyring.ts';
import { typed, type ReadRow } from '../../postgres/database/table.ts';
import type { ProjectionTable } from '../../eventsourcing/projections/projection.ts';
import type { CommandEnd } from './commands.events.ts';

export const commandStatuses = ['running', 'exited', 'killed', 'ended_by_sleep'] as const;
export type CommandStatus = (typeof commandStatuses)[number];

/** Returns the status that callers see of a command with this end. */
export function statusOf(end: CommandEnd): CommandStatus {
  return end === 'not_started' || end === 'lost' ? 'killed' : end;
}

/** The running commands of agents, and the latest ended ones of each agent. */
export const commandsTable = {
  key: 'command_id',
  columns: {
    command_id: 'text collate "C" not null',
    agent_id: 'text collate "C" not null',
    account_id: 'text collate "C" not null',
    /** The container in which it runs. */
    generation: 'integer not null',
    status: typed<CommandStatus>('text not null'),
    /** The command, its folder and its name, sealed under the agent's data key. */
    command: typed<Sealed>('json not null'),
    keep_awake_until: 'timestamptz(3)',
    exit_code: 'integer',
    /** The bytes that it printed, and those of them that were not kept; null while it runs, or if unknown. */
    output_bytes: 'bigint',
    dropped_bytes: 'bigint',
    started_at: 'timestamptz(3) not null',
    ended_at: 'timestamptz(3)',
  },
  indexes: {
    by_agent: '(agent_id, started_at desc, command_id desc)',
    running: `(agent_id) where status = 'running'`,
  },
} as const satisfies ProjectionTable;

export type CommandRow = ReadRow<typeof commandsTable>;
