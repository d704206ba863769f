import { Controller, Get, Query } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';

import { selectionOf } from '../../history/index.ts';
import { RequireAdmin } from '../../../http/auth/access.ts';
import { type RequestContext, CurrentRequest } from '../../../http/server/request-context.ts';
import { LargeRead } from '../../../http/limits/large-reads.interceptor.ts';
import { BrowsedEventDto, BrowseEventsQueryDto } from './events.dto.ts';
import { BrowseEvents } from './events.queries.ts';

@Controller('api/admin/events')
@RequireAdmin()
export class EventsController {
  constructor(private readonly queries: QueryBus) {}

  /**
   * Lists the events of the log by position, oldest first. A page may be short or even empty when few events match: the `Link` header then
   * leads to the next page.
   */
  @Get()
  @LargeRead()
  async list(@Query() query: BrowseEventsQueryDto, @CurrentRequest() call: RequestContext): Promise<BrowsedEventDto[]> {
    const { stream = null, class: eventClass = 'core' } = query;
    const { limit, place } = call.page(query, 'position');
    const after = place?.[0] ?? query.after ?? null;
    const { items, next } = await this.queries.execute(new BrowseEvents(selectionOf(query), stream, eventClass, after, limit));
    if (next !== null) call.linkNextPage([next]);
    return items;
  }
}
