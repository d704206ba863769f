import { Controller, Get, Query } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';
import { ApiOkResponse, ApiProduces } from '@nestjs/swagger';

import { AgentId } from '../agents/index.ts';
import { RequireScope } from '../../http/auth/access.ts';
import { Operation } from '../../http/requests/operation.ts';
import { type RequestContext, CurrentRequest } from '../../http/server/request-context.ts';
import { LargeRead } from '../../http/limits/large-reads.interceptor.ts';
import { EVENT_STREAM, ResponseStreams, type ServerSentEvent, type Streamed } from '../../http/server/response-streams.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { ExplainStatus } from './explain/explain.queries.ts';
import {
  DiffDto,
  DiffQueryDto,
  ExplanationDto,
  HistoryQueryDto,
  type Moment,
  momentOf,
  PastStateDto,
  selectionOf,
  StateQueryDto,
} from './entries/history.dto.ts';
import { FollowHistory, GetHistory, type HistoryCursor } from './history.queries.ts';
import { HistoryItem } from './entries/history-item.ts';
import { GetDiff, GetPastState } from './time-travel/time-travel.queries.ts';

@Controller('api/v1/agents/:agentId/history')
@RequireScope('manage')
@LargeRead()
export class HistoryController {
  constructor(
    private readonly queries: QueryBus,
    private readonly streams: ResponseStreams,
  ) {}

  /**
   * Lists every event of the agent, oldest first, even after it is deleted. With `Accept: text/event-stream` it continues with new events
   * as they happen.
   */
  @Get()
  @Operation('listAgentHistory')
  @ApiProduces('application/json', EVENT_STREAM)
  @ApiOkResponse({ type: [HistoryItem] })
  async list(
    @AgentId() agentId: string,
    @Query() query: HistoryQueryDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<HistoryItem[] | Streamed> {
    const { accountId } = call;
    // A list starts after its cursor, after `after`, or after the last event that the reader of a stream received.
    const { limit, place } = call.page(query, 'revision');
    const after = place?.[0] ?? parseCursor(query.after) ?? parseCursor(call.lastEventId) ?? -1;
    const selection = selectionOf(query);
    if (call.accepts(EVENT_STREAM))
      return this.streams.events(call, async (signal) =>
        numbered(await this.queries.execute(new FollowHistory(accountId, agentId, after, selection, signal))),
      );
    const { items, next } = await this.queries.execute(new GetHistory(accountId, agentId, after, limit, selection));
    if (next !== null) call.linkNextPage([next]);
    return items;
  }

  /** Returns the agent as GET answered at a time or after a revision, with its variables and its latest deployment. */
  @Get('state')
  state(@AgentId() agentId: string, @Query() query: StateQueryDto, @CurrentRequest() { accountId }: RequestContext): Promise<PastStateDto> {
    return this.queries.execute(new GetPastState(accountId, agentId, requireMoment(query)));
  }

  /** Lists what changed between two moments, and for each change the last event that made it. */
  @Get('diff')
  diff(@AgentId() agentId: string, @Query() { from, to }: DiffQueryDto, @CurrentRequest() { accountId }: RequestContext): Promise<DiffDto> {
    return this.queries.execute(new GetDiff(accountId, agentId, parseMoment(from), parseMoment(to)));
  }

  /** Explains the agent's current status: returns the chain of causes, starting with the first one. */
  @Get('explain')
  @Operation('explainAgent')
  explain(@AgentId() agentId: string, @CurrentRequest() { accountId }: RequestContext): Promise<ExplanationDto> {
    return this.queries.execute(new ExplainStatus(accountId, agentId));
  }
}

/** Positions are written with at least 20 digits, revisions with fewer. */
function parseCursor(text: unknown): HistoryCursor | null {
  if (typeof text !== 'string' || !/^(-1|\d{1,60})$/.test(text)) return null;
  return text.length >= 20 ? text : Math.min(Number(text), Number.MAX_SAFE_INTEGER - 1);
}

function requireMoment({ at, revision }: StateQueryDto): Moment {
  if (at !== undefined && revision === undefined) return { time: at };
  if (revision !== undefined && at === undefined) return { revision };
  const message = 'give either at or revision';
  throw new ProblemError('invalid_request', 'Give either at or revision.', {
    errors: ['at', 'revision'].map((field) => ({ field, message })),
  });
}

/** The fallback is never used, because the DTO refuses a text that is not a moment. */
function parseMoment(text: string): Moment {
  return momentOf(text) ?? { revision: 0 };
}

async function* numbered(items: AsyncIterable<HistoryItem>): AsyncGenerator<ServerSentEvent> {
  for await (const item of items) yield { id: String(item.revision), data: item };
}
