import { agentsReadModel } from '../../agents/index.ts';
import { typed, type WrittenRow } from '../../../postgres/database/table.ts';
import { type ProjectionTable, tableOf } from '../../../eventsourcing/projections/projection.ts';
import type { JsonObject } from '../../../eventsourcing/event-store/event-definition.ts';
import type { LogLevel } from '../output/logs.events.ts';

/** The number of days for which entries are kept. */
export const KEPT_DAYS = 7;

/** Selects the agents that exist. Entries of others are removed. */
export const EXISTING_AGENTS = `select agent_id from ${tableOf(agentsReadModel)}`;

/** The table for the lines that agents print, and for the journal. */
export const logTable = {
  key: 'id',
  columns: {
    /** The id. Ids increase with the order of the entries of a source. */
    id: 'text collate "C" not null',
    agent_id: 'text not null',
    level: typed<LogLevel>('text not null'),
    source: 'text not null',
    message: 'text not null',
    timestamp: 'timestamptz not null',
    /** The other members of a line that the agent printed as JSON; null if there are none. */
    fields: 'json',
  },
  indexes: { by_agent: '(agent_id, timestamp desc, id desc)', by_time: '(timestamp)' },
  expires: { column: 'timestamp', days: KEPT_DAYS },
  belongs: { column: 'agent_id', to: EXISTING_AGENTS },
} as const satisfies ProjectionTable;

export type LogTable = typeof logTable;

/** An entry as responses show it. */
export type LogEntry = Omit<WrittenRow<LogTable>, 'agent_id' | 'fields'> & { fields?: JsonObject };

/** Returns the entry of a row. */
export function entryOf({ id, level, source, message, timestamp, fields }: Omit<WrittenRow<LogTable>, 'agent_id'>): LogEntry {
  return { id, level, source, message, timestamp, ...(fields !== null && { fields: fields as JsonObject }) };
}
