import { agentsProjection } from '../../agents/services.ts';
import { idOf } from '../../platform/event-store/event-store.ts';
import { type Projection, tableOf } from '../../platform/projections/projection.ts';
import type { LogEvent } from '../output/logs.events.ts';

export interface LogEntryColumns {
  /** The id grows with the order of the entries within its source. */
  id: string;
  agent_id: string;
  level: string;
  source: string;
  message: string;
  timestamp: string;
}

const columns = {
  id: 'text collate "C" not null',
  agent_id: 'text not null',
  level: 'text not null',
  source: 'text not null',
  message: 'text not null',
  timestamp: 'timestamptz not null',
};

/** The number of days for which entries are kept. */
export const KEPT_DAYS = 7;

/** Selects the agents that exist; entries of others are removed. */
export const AGENTS_THAT_ARE = `select agent_id from ${tableOf(agentsProjection)}`;

const shape = {
  key: 'id',
  columns,
  indexes: { by_agent: '(agent_id, timestamp desc, id desc)', by_time: '(timestamp)' },
  expires: { column: 'timestamp', days: KEPT_DAYS },
  belongs: { column: 'agent_id', to: AGENTS_THAT_ARE },
};

/** Returns the id of a line by its index in the batch. Ids are ordered as text. */
export function entryId(source: 'a' | 's', position: string, index: number): string {
  return `${source}${position}${String(index).padStart(4, '0')}`;
}

/** Stores the agents' output, one row for each line. */
export const logLinesProjection: Projection<LogEntryColumns> = {
  name: 'log_lines',
  version: 2,
  filter: { eventClass: 'log' },
  table: { name: 'log_lines', ...shape },
  keys: () => [],
  project(stored, rows) {
    const event = stored as unknown as LogEvent;
    const agent_id = idOf(stored.stream);
    event.data.lines.forEach(({ t, l, m }, index) => {
      const id = entryId('a', stored.position, index);
      rows.set(id, { id, agent_id, level: l, source: 'agent', message: m, timestamp: t });
    });
  },
};

export const LOG_LINES = tableOf(logLinesProjection);

const journal = {
  name: 'log_journal',
  version: 4,
  filter: { eventClass: 'core' as const, categories: ['agent', 'deployment'] },
  table: { name: 'log_journal', ...shape },
};

export const LOG_JOURNAL_NAME = journal.name;

export const LOG_JOURNAL = tableOf(journal);

type SummaryOf = (stored: Parameters<Projection['project']>[0]) => string;

const failures = new Set(['DeploymentFailed', 'AgentFailed']);
const warnings = new Set(['ContainerExited', 'DeploymentCanceled']);

/** Stores what happened to the agents, in sentences, beside their own output. The sources are `system` and `deploy`. */
export function journalProjection(summaryOf: SummaryOf): Projection<LogEntryColumns> {
  return {
    ...journal,
    keys: () => [],
    project(stored, rows) {
      const add = (agent_id: string, source: string, level: string, message: string, index: number) => {
        const id = entryId('s', stored.position, index);
        rows.set(id, { id, agent_id, level, source, message, timestamp: stored.at });
      };
      if (stored.type === 'BuildLogCaptured') {
        const { agent_id, lines } = stored.data as { agent_id: string; lines: string[] };
        lines.forEach((line, index) => add(agent_id, 'deploy', 'info', line, index));
        return;
      }
      const level = failures.has(stored.type) ? 'error' : warnings.has(stored.type) ? 'warning' : 'info';
      add(idOf(stored.stream), 'system', level, `${summaryOf(stored)}.`, 0);
    },
  };
}
