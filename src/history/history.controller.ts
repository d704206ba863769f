import { Controller, Get, Query, Req, Res } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';
import { IsOptional, Matches } from 'class-validator';
import type { FastifyReply, FastifyRequest } from 'fastify';

import { AgentId, ListQuery } from '../agents/index.ts';
import { CurrentCaller, RequireScope } from '../platform/http/access.ts';
import type { Caller } from '../platform/http/caller.ts';
import { sendEventStream, wantsEventStream, type ServerSentEvent } from '../platform/http/event-stream.ts';
import { decodeCursor, encodeCursor, linkNextPage } from '../platform/http/paging.ts';
import { Refusal } from '../platform/refusal.ts';
import { FollowHistory, GetHistory, type HistoryItem } from './history.handlers.ts';

const DEFAULT_LIMIT = 50;

export class HistoryQuery extends ListQuery {
  /** Only events of this type. */
  @IsOptional()
  @Matches(/^[A-Z][A-Za-z0-9]{0,99}$/, { message: 'must be the type of an event' })
  type?: string;
}

@Controller('api/v1/agents/:agentId/history')
export class HistoryController {
  constructor(private readonly queries: QueryBus) {}

  /** Every event of the agent, oldest first, also when it is deleted; with `Accept: text/event-stream` those that come, too. */
  @Get()
  @RequireScope('manage')
  async list(
    @AgentId() agentId: string,
    @Query() query: HistoryQuery,
    @CurrentCaller() { accountId }: Caller,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const after = revisionAfter(query, request);
    const type = query.type ?? null;
    if (wantsEventStream(request)) {
      return sendEventStream(reply, async (signal) =>
        numbered(await this.queries.execute(new FollowHistory(accountId, agentId, after, type, signal))),
      );
    }
    const { items, next } = await this.queries.execute(new GetHistory(accountId, agentId, after, query.limit ?? DEFAULT_LIMIT, type));
    if (next !== null) linkNextPage(request, reply, encodeCursor([next]));
    await reply.send(items);
  }
}

/** The revision after which to begin: of the cursor, or of the last event that a stream's reader has had. */
function revisionAfter(query: HistoryQuery, request: FastifyRequest): number {
  const place = decodeCursor(query.cursor, 1)?.[0];
  if (place === undefined) {
    const last = request.headers['last-event-id'];
    return typeof last === 'string' && /^\d{1,15}$/.test(last) ? Number(last) : -1;
  }
  if (typeof place === 'number' && Number.isSafeInteger(place) && place >= -1) return place;
  throw new Refusal('invalid_request', 'The cursor is not one that this service gave.', {
    errors: [{ field: 'cursor', message: 'is not a cursor of this list' }],
  });
}

async function* numbered(items: AsyncIterable<HistoryItem>): AsyncGenerator<ServerSentEvent> {
  for await (const item of items) yield { id: String(item.revision), data: item };
}
