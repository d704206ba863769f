import { Injectable } from '@nestjs/common';
import { Query, QueryHandler, type IQueryHandler } from '@nestjs/cqrs';
import { Database } from '../platform/database/database.ts';
import type { LogLevel } from './log.events.ts';

export interface LogEntry {
  id: string;
  level: LogLevel;
  message: string;
  source: string;
  timestamp: string;
}

export interface LogFilter {
  level?: LogLevel;
  /** Inclusive. */
  since?: Date;
  /** Exclusive. */
  until?: Date;
  /** A text that the message holds, whatever its case. */
  q?: string;
}

/** The newest entries of an agent, oldest first. */
export class ListLogEntries extends Query<LogEntry[]> {
  constructor(
    readonly agentId: string,
    readonly filter: LogFilter,
    readonly limit: number,
    /** Time and id of the entry before which the page ends. */
    readonly before: readonly (string | number)[] | null,
  ) {
    super();
  }
}

@QueryHandler(ListLogEntries)
export class ListLogEntriesHandler implements IQueryHandler<ListLogEntries> {
  constructor(private readonly database: Database) {}

  async execute({ agentId, filter, limit, before }: ListLogEntries): Promise<LogEntry[]> {
    const newest = (table: string) => `
      (select id, level, source, message, timestamp from ${table}
        where agent_id = $1
          and ($3::text is null or level = $3)
          and ($4::timestamptz is null or timestamp >= $4)
          and ($5::timestamptz is null or timestamp < $5)
          and ($6::text is null or position(lower($6) in lower(message)) > 0)
          and ($7::timestamptz is null or (timestamp, id) < ($7::timestamptz, $8::text collate "C"))
        order by timestamp desc, id desc limit $2)`;
    const rows = await this.database.query<Omit<LogEntry, 'timestamp'> & { timestamp: Date }>(
      `select * from (${newest('log_lines')} union all ${newest('log_journal')}) entries order by timestamp desc, id collate "C" desc limit $2`,
      [
        agentId,
        limit,
        filter.level ?? null,
        filter.since ?? null,
        filter.until ?? null,
        filter.q ?? null,
        before?.[0] ?? null,
        before?.[1] ?? null,
      ],
    );
    return rows.map((row) => ({ ...row, timestamp: row.timestamp.toISOString() })).toReversed();
  }
}

/** Seconds and lines for which an agent's output is kept (contract 10). */
const KEPT_DAYS = 7;
const KEPT_LINES = 100_000;

/** Cuts the read model to what is kept; the log itself is cut by the store's own retention. */
@Injectable()
export class LogRetention {
  constructor(private readonly database: Database) {}

  async trim(): Promise<void> {
    await this.database.query(`delete from log_lines where timestamp < now() - make_interval(days => ${KEPT_DAYS})`);
    await this.database.query(`
      delete from log_lines using (
        select a.agent_id, last.timestamp, last.id from (select distinct agent_id from log_lines) a cross join lateral
          (select timestamp, id from log_lines l where l.agent_id = a.agent_id order by timestamp desc, id desc offset ${KEPT_LINES} limit 1) last) cut
       where log_lines.agent_id = cut.agent_id and (log_lines.timestamp, log_lines.id) <= (cut.timestamp, cut.id)`);
  }
}
