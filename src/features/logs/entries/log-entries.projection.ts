import { Injectable } from '@nestjs/common';
import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import { Database } from '../../../postgres/database/database.ts';
import type { ReadRow } from '../../../postgres/database/table.ts';
import type { Position } from '../../../eventsourcing/event-store/event-store.ts';
import { PAGE_BYTES_MAX } from '../../../kernel/limits/page-bytes.ts';
import { entryId, LOG_JOURNAL, LOG_LINES } from './logs.projection.ts';
import { EXISTING_AGENTS, entryOf, KEPT_DAYS, type LogTable } from './logs.table.ts';
import { ListLogEntries, type LogPage, withinJson } from './log-entries.queries.ts';

/** The size of an entry without its message and fields, as JSON, in bytes. */
const ENTRY_BYTES = 150;

@QueryHandler(ListLogEntries)
export class ListLogEntriesHandler implements IQueryHandler<ListLogEntries> {
  constructor(private readonly database: Database) {}

  async execute({ agentId, filter, limit, before }: ListLogEntries): Promise<LogPage> {
    const newest = (table: string) => `
      (select id, level, source, message, timestamp, fields from ${table}
        where agent_id = $1
          and ($3::text is null or level = $3)
          and ($4::timestamptz is null or timestamp >= $4)
          and ($5::timestamptz is null or timestamp < $5)
          and ($6::text is null or position(lower($6) in lower(message)) > 0 or position(lower($9) in lower(fields::text)) > 0)
          and ($7::timestamptz is null or (timestamp, id) < ($7::timestamptz, $8::text collate "C"))
        order by timestamp desc, id desc limit $2)`;
    const newestFirst = 'order by timestamp desc, id collate "C" desc';
    const rows = await this.database.query<Omit<ReadRow<LogTable>, 'agent_id'> & { total: number }>(
      `select id, level, source, message, timestamp, fields, total::float8 from (
         select *, sum(bytes) over (${newestFirst} rows unbounded preceding) as total from (
           select *, octet_length(to_json(message)::text) + coalesce(octet_length(fields::text), 0) + ${ENTRY_BYTES} as bytes
             from (${newest(LOG_LINES)} union all ${newest(LOG_JOURNAL)}) entries ${newestFirst} limit $2) page) sized
        where total - bytes < ${PAGE_BYTES_MAX} ${newestFirst}`,
      [
        agentId,
        limit,
        filter.level ?? null,
        filter.since ?? null,
        filter.until ?? null,
        filter.q ?? null,
        before?.[0] ?? null,
        before?.[1] ?? null,
        filter.q === undefined ? null : withinJson(filter.q),
      ],
    );
    const entries = rows.toReversed().map((row) => entryOf({ ...row, timestamp: row.timestamp.toISOString() }));
    const isFull = rows.length === limit || (rows.at(-1)?.total ?? 0) >= PAGE_BYTES_MAX;
    const [oldest] = entries;
    return { entries, earlierBefore: isFull && oldest !== undefined ? [oldest.timestamp, oldest.id] : null };
  }
}

/** The number of an agent's entries that the journal keeps, unless they are too old. */
const KEPT_ENTRIES_MAX = 100_000;
/** The most rows that one statement deletes. */
const DELETED_ROWS_MAX = 5_000;

/** Deletes old entries from the read models, with short statements whose cost depends on what they delete. The store trims the log itself. */
@Injectable()
export class LogRetention {
  /** The journal's last entry at the previous trim; null before the first trim. */
  private trimmedUpTo: string | null = null;

  constructor(private readonly database: Database) {}

  /** Deletes the lines of the agent's output that are before the position in the log. */
  async deleteLines(agentId: string, before: Position): Promise<void> {
    await this.removeAll(
      `delete from ${LOG_LINES} where id = any (array(
         select id from (select id from ${LOG_LINES} where agent_id = $2 order by timestamp, id limit $1) oldest where id < $3 collate "C"))`,
      [agentId, entryId('a', before, 0)],
    );
  }

  /** Deletes all entries of a deleted agent. */
  async deleteAgent(agentId: string): Promise<void> {
    for (const table of [LOG_LINES, LOG_JOURNAL])
      await this.removeAll(`delete from ${table} where id = any (array(select id from ${table} where agent_id = $2 limit $1))`, [agentId]);
  }

  /**
   * Returns agents that have entries here but are not in the read model of agents; at most 5,000. It costs one lookup for each agent, not
   * for each entry.
   */
  async agentsWithoutRow(): Promise<string[]> {
    const found = new Set<string>();
    for (const table of [LOG_LINES, LOG_JOURNAL]) {
      const rows = await this.database.query<{ agent_id: string }>(
        `with recursive agents as (
           (select agent_id from ${table} order by agent_id limit 1)
           union all
           select (select l.agent_id from ${table} l where l.agent_id > a.agent_id order by l.agent_id limit 1)
             from agents a where a.agent_id is not null)
         select agent_id from agents
          where agent_id is not null and agent_id not in (${EXISTING_AGENTS}) limit $1`,
        [DELETED_ROWS_MAX],
      );
      for (const { agent_id } of rows) found.add(agent_id);
    }
    return [...found].slice(0, DELETED_ROWS_MAX);
  }

  /** Deletes entries that are too old, and the oldest journal entries of agents that have too many. */
  async trim(): Promise<void> {
    for (const table of [LOG_LINES, LOG_JOURNAL])
      await this.removeAll(
        `delete from ${table} where id = any (array(
           select id from ${table} where timestamp < now() - make_interval(days => $2) order by timestamp limit $1))`,
        [KEPT_DAYS],
      );
    await this.trimJournal();
  }

  /** Trims the journal of agents with new entries since the previous trim, because only they can have too many. */
  private async trimJournal(): Promise<void> {
    const [newest] = await this.database.query<{ id: string }>(`select id from ${LOG_JOURNAL} order by id desc limit 1`);
    const agents = await this.database.query<{ agent_id: string }>(`select distinct agent_id from ${LOG_JOURNAL} where id > $1`, [
      this.trimmedUpTo ?? newest?.id ?? '',
    ]);
    for (const { agent_id } of agents)
      await this.removeAll(
        `delete from ${LOG_JOURNAL} where id = any (array(
           select id from ${LOG_JOURNAL} where agent_id = $2 order by timestamp desc, id desc offset $3 limit $1))`,
        [agent_id, KEPT_ENTRIES_MAX],
      );
    this.trimmedUpTo = newest?.id ?? this.trimmedUpTo;
  }

  private async removeAll(statement: string, values: unknown[]): Promise<void> {
    for (let removed = DELETED_ROWS_MAX; removed === DELETED_ROWS_MAX;)
      removed = (await this.database.pool.query(statement, [DELETED_ROWS_MAX, ...values])).rowCount ?? 0;
  }
}
