import { categoryOf, idOf, type StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { type Projection, tableOf } from '../../../eventsourcing/projections/projection.ts';
import type { LogEvent, LogLevel } from '../output/logs.events.ts';
import { type LogTable, logTable } from './logs.table.ts';

/** Returns the id of a line by its index in the batch. Ids are ordered as text. */
export function entryId(source: 'a' | 's', position: string, index: number): string {
  return `${source}${position}${String(index).padStart(4, '0')}`;
}

/** Stores the agents' output, one row for each line. */
export const logLinesProjection: Projection<LogTable> = {
  name: 'log_lines',
  version: 3,
  filter: { eventClass: 'log' },
  table: logTable,
  keys: () => [],
  project(stored, rows) {
    const event = stored as unknown as LogEvent;
    const agent_id = idOf(stored.stream);
    event.data.lines.forEach(({ t, l, m, f }, index) => {
      const id = entryId('a', stored.position, index);
      rows.set(id, { id, agent_id, level: l, source: 'agent', message: m, timestamp: t, fields: f ?? null });
    });
  },
};

export const LOG_LINES = tableOf(logLinesProjection);

const journal = {
  name: 'log_journal',
  version: 7,
  filter: { eventClass: 'core' as const, categories: ['agent', 'deployment', 'conversation'] },
  table: logTable,
};

export const LOG_JOURNAL_NAME = journal.name;

export const LOG_JOURNAL = tableOf(journal);

type SummaryOf = (stored: Parameters<Projection['project']>[0]) => string;

const failures = new Set(['DeploymentFailed', 'AgentFailed', 'MessageDeadLettered']);
const warnings = new Set(['ContainerExited', 'DeploymentCanceled', 'DeliveryFailed']);

/** Stores what happened to the agents as sentences, in addition to their output. The sources are `system`, `deploy` and `webhook`. */
export function journalProjection(summaryOf: SummaryOf): Projection<LogTable> {
  return {
    ...journal,
    concerns: (event) => journalAgentOf(event) !== null,
    keys: () => [],
    project(stored, rows) {
      const add = (agent_id: string, source: string, level: LogLevel, message: string, index: number) => {
        const id = entryId('s', stored.position, index);
        rows.set(id, { id, agent_id, level, source, message, timestamp: stored.at, fields: null });
      };
      if (stored.type === 'BuildLogCaptured') {
        const { agent_id, lines } = stored.data as { agent_id: string; lines: string[] };
        lines.forEach((line, index) => add(agent_id, 'deploy', 'info', line, index));
        return;
      }
      const agentId = journalAgentOf(stored);
      if (agentId === null) return;
      const level = failures.has(stored.type) ? 'error' : warnings.has(stored.type) ? 'warning' : 'info';
      const source = categoryOf(stored.stream) === 'conversation' ? 'webhook' : 'system';
      add(agentId, source, level, sentenceOf(summaryOf(stored)), 0);
    },
  };
}

/** Returns the summary as a sentence. One that ends with the reason of a failure is a sentence already. */
function sentenceOf(summary: string): string {
  return /[.!?…]$/.test(summary) ? summary : `${summary}.`;
}

/** Returns the agent in whose journal the event is; null if it is in none. Of the messages to agents, only webhooks are in the journal. */
export function journalAgentOf({ stream, type, data }: StoredEvent): string | null {
  if (type === 'BuildLogCaptured') return data.agent_id as string;
  if (categoryOf(stream) !== 'conversation') return idOf(stream);
  if (data.channel !== 'webhook') return null;
  const agent = type === 'MessageAccepted' ? (data.draws as { agent?: string } | undefined)?.agent : data.agent;
  return typeof agent === 'string' ? agent : null;
}
