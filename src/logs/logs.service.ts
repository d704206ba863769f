import { Injectable } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { agentDecider, owned } from '../agents/index.ts';
import { Aggregates } from '../platform/event-store/aggregates.ts';
import type { Caller } from '../platform/http/caller.ts';
import { sendEventStream, wantsEventStream, type ServerSentEvent } from '../platform/http/event-stream.ts';
import { decodeCursor, encodeCursor, linkNextPage } from '../platform/http/paging.ts';
import { ListLogEntries, type LogEntry } from './log-entries.projection.ts';
import { LogTail } from './log-tail.service.ts';
import type { LogQuery } from './log.dto.ts';

/** Reads an agent's log, and follows it. */
@Injectable()
export class LogsService {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly queries: QueryBus,
    private readonly tail: LogTail,
  ) {}

  async answer(agentId: string, query: LogQuery, caller: Caller, request: FastifyRequest, reply: FastifyReply): Promise<void> {
    owned((await this.aggregates.load(`agent-${agentId}`, agentDecider)).state, caller.accountId);
    if (wantsEventStream(request)) {
      await sendEventStream(reply, async (signal) => this.#follow(agentId, query, await this.tail.follow(agentId, signal)));
      return;
    }
    const entries = await this.#newest(agentId, query);
    const oldest = entries[0];
    if (oldest && entries.length === (query.limit ?? 100)) linkNextPage(request, reply, encodeCursor([oldest.timestamp, oldest.id]));
    await reply.send(entries);
  }

  #newest(agentId: string, query: LogQuery): Promise<LogEntry[]> {
    const { limit = 100, cursor, level, since, until, q } = query;
    return this.queries.execute(new ListLogEntries(agentId, { level, since, until, q }, limit, decodeCursor(cursor, 2)));
  }

  /** What stands, then what comes; what came while the former was read is given once. */
  async *#follow(agentId: string, query: LogQuery, live: AsyncIterable<LogEntry[]>): AsyncGenerator<ServerSentEvent> {
    const given = new Set<string>();
    for (const entry of await this.#newest(agentId, query)) {
      given.add(entry.id);
      yield { id: entry.id, data: entry };
    }
    for await (const entries of live)
      for (const entry of entries) if (!given.delete(entry.id) && matches(entry, query)) yield { id: entry.id, data: entry };
  }
}

function matches(entry: LogEntry, { level, since, until, q }: LogQuery): boolean {
  const at = Date.parse(entry.timestamp);
  if (level !== undefined && entry.level !== level) return false;
  if (since !== undefined && at < Date.parse(since)) return false;
  if (until !== undefined && at >= Date.parse(until)) return false;
  return q === undefined || entry.message.toLowerCase().includes(q.toLowerCase());
}
