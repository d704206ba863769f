import { Controller, Get, Query } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';
import { ApiOkResponse, ApiProduces } from '@nestjs/swagger';

import { AuditItem, selectionOf, type HistoryItem } from '../../history/index.ts';
import { RequireScope } from '../../../http/auth/access.ts';
import { type RequestContext, CurrentRequest } from '../../../http/server/request-context.ts';
import { Operation } from '../../../http/requests/operation.ts';
import { LargeRead } from '../../../http/limits/large-reads.interceptor.ts';
import { ReadsModel } from '../../../http/responses/reads-model.ts';
import { EVENT_STREAM, ResponseStreams, type ServerSentEvent, type Streamed } from '../../../http/server/response-streams.ts';
import { ComputerId } from '../fields/computer-id.ts';
import { ComputerHistoryQueryDto } from './computer-history.dto.ts';
import { FollowComputerHistory, GetComputerHistory } from './computer-history.queries.ts';

@Controller('api/v1/computers/:computerId/history')
@RequireScope('computers')
@LargeRead()
export class ComputerHistoryController {
  constructor(
    private readonly queries: QueryBus,
    private readonly streams: ResponseStreams,
  ) {}

  /**
   * Lists every event of the computer, its commands, files and viewers included, oldest first, even after it is deleted. What was typed or
   * seen is in none of them. With `Accept: text/event-stream` it continues with new events as they happen.
   */
  @Get()
  @Operation('listComputerHistory')
  @ReadsModel('audit_entries')
  @ApiProduces('application/json', EVENT_STREAM)
  @ApiOkResponse({ type: [AuditItem] })
  async list(
    @ComputerId() computerId: string,
    @Query() query: ComputerHistoryQueryDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<object[] | Streamed> {
    const { accountId } = call;
    const { limit, place } = call.page(query, 'position');
    const selection = selectionOf(query);
    const after = place?.[0] ?? positionOf(query.after ?? call.lastEventId);
    if (call.accepts(EVENT_STREAM))
      return this.streams.events(call, async (signal) =>
        numbered(await this.queries.execute(new FollowComputerHistory(accountId, computerId, after, selection, signal))),
      );
    const { items, next } = await this.queries.execute(new GetComputerHistory(accountId, computerId, after, limit, selection));
    if (next !== null) call.linkNextPage([next]);
    return items;
  }
}

function positionOf(text: string | undefined): string | null {
  return text !== undefined && /^\d{1,60}$/.test(text) ? text.padStart(20, '0') : null;
}

async function* numbered(items: AsyncIterable<HistoryItem>): AsyncGenerator<ServerSentEvent> {
  for await (const item of items) yield { id: item.position, data: item };
}
