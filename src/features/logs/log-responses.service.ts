import { Injectable } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';
import { Agents } from '../agents/services.ts';
import type { RequestContext } from '../../http/server/request-context.ts';
import { decodeCursor } from '../../http/responses/paging.ts';
import { EVENT_STREAM, ResponseStreams, type ServerSentEvent, type Streamed } from '../../http/server/response-streams.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { ListLogEntries, type LogFilter, type LogPage, withinJson } from './entries/log-entries.queries.ts';
import type { LogEntry } from './entries/logs.table.ts';
import { LogTail } from './entries/log-tail.service.ts';
import type { LogQueryDto } from './logs.dto.ts';

/** Responds with an agent's log, and follows it. */
@Injectable()
export class LogResponses {
  constructor(
    private readonly agents: Agents,
    private readonly queries: QueryBus,
    private readonly tail: LogTail,
    private readonly streams: ResponseStreams,
  ) {}

  async respond(agentId: string, query: LogQueryDto, call: RequestContext): Promise<LogEntry[] | Streamed> {
    await this.agents.load(agentId, call.accountId);
    const filter = filterOf(query);
    if (call.accepts(EVENT_STREAM)) {
      const cut = () => call.disconnect();
      return this.streams.events(call, async (signal) => this.follow(agentId, query, filter, await this.tail.follow(agentId, signal, cut)));
    }
    const { entries, earlierBefore } = await this.newest(agentId, query, filter);
    if (earlierBefore !== null) call.linkNextPage(earlierBefore);
    return entries;
  }

  private async newest(agentId: string, { limit = 100, cursor }: LogQueryDto, filter: LogFilter): Promise<LogPage> {
    await this.tail.waitUntilStored(agentId);
    return this.queries.execute(new ListLogEntries(agentId, filter, limit, decodeCursor(cursor, 'time', 'text')));
  }

  /** Yields the stored entries, then new ones. An entry that arrives while the stored ones are read is yielded once. */
  private async *follow(
    agentId: string,
    query: LogQueryDto,
    filter: LogFilter,
    live: AsyncIterable<LogEntry[]>,
  ): AsyncGenerator<ServerSentEvent> {
    const given = new Set<string>();
    for (const entry of (await this.newest(agentId, query, filter)).entries) {
      given.add(entry.id);
      yield { id: entry.id, data: entry };
    }
    for await (const entries of live)
      for (const entry of entries) if (!given.delete(entry.id) && matches(entry, filter)) yield { id: entry.id, data: entry };
  }
}

function filterOf({ level, since, until, q }: LogQueryDto): LogFilter {
  return { level, since: parseTime('since', since), until: parseTime('until', until), q };
}

/** Parses a time. Without an offset, it is UTC. Throws `invalid_request` if the time is invalid. */
function parseTime(field: string, text: string | undefined): Date | undefined {
  if (text === undefined) return undefined;
  const hasOffset = /[zZ]$|[+-]\d\d:?\d\d$/.test(text);
  const instant = new Date(hasOffset || !text.includes('T') ? text : `${text}Z`);
  if (!Number.isNaN(instant.getTime())) return instant;
  throw new ProblemError('invalid_request', 'The request holds a time that is none.', { errors: [{ field, message: 'is not a time' }] });
}

function matches(entry: LogEntry, { level, since, until, q }: LogFilter): boolean {
  const at = Date.parse(entry.timestamp);
  if (level !== undefined && entry.level !== level) return false;
  if (since !== undefined && at < since.getTime()) return false;
  if (until !== undefined && at >= until.getTime()) return false;
  if (q === undefined) return true;
  const has = (text: string, part: string) => text.toLowerCase().includes(part.toLowerCase());
  return has(entry.message, q) || (entry.fields !== undefined && has(JSON.stringify(entry.fields), withinJson(q)));
}
