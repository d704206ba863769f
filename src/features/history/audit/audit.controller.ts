import { Controller, Get, Query } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';
import { ApiOkResponse, ApiProduces } from '@nestjs/swagger';

import { RequireScope } from '../../../http/auth/access.ts';
import { type RequestContext, CurrentRequest } from '../../../http/server/request-context.ts';
import type { Caller } from '../../../kernel/context/caller.ts';
import { LargeRead } from '../../../http/limits/large-reads.interceptor.ts';
import { ReadsModel } from '../../../http/responses/reads-model.ts';
import { NDJSON, ResponseStreams, type Streamed } from '../../../http/server/response-streams.ts';
import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import { ExportAudit, ListAudit } from './audit.queries.ts';
import type { AuditSelection } from './audit-entries.ts';
import { AuditQueryDto, selectionOf } from '../entries/history.dto.ts';
import { AuditItem } from '../entries/history-item.ts';

@Controller('api/v1/audit')
export class AuditController {
  constructor(
    private readonly queries: QueryBus,
    private readonly streams: ResponseStreams,
  ) {}

  /**
   * Lists every event of the account, oldest first, except the output of containers and builds. An administrator's session lists the events
   * of all accounts, or of the one that `account_id` names. With `Accept: application/x-ndjson` it returns all of them, one per line.
   */
  @Get()
  @RequireScope('manage')
  @LargeRead()
  @ReadsModel('audit_entries')
  @ApiProduces('application/json', NDJSON)
  @ApiOkResponse({ type: [AuditItem] })
  async list(@Query() query: AuditQueryDto, @CurrentRequest() call: RequestContext): Promise<AuditItem[] | Streamed> {
    const selection = auditOf(query, call.caller);
    const { limit, place } = call.page(query, 'position');
    const after = place?.[0] ?? null;
    if (call.accepts(NDJSON)) {
      const all = new ExportAudit(selection, after, query.limit ?? Number.MAX_SAFE_INTEGER);
      return this.streams.ndjson(call, () => this.queries.execute(all));
    }
    const { items, next } = await this.queries.execute(new ListAudit(selection, after, limit));
    if (next !== null) call.linkNextPage([next]);
    return items;
  }
}

/** Only an administrator's session may read another account's audit. The refusal does not reveal whether that account exists. */
function auditOf(query: AuditQueryDto, caller: Caller): AuditSelection {
  const isAdmin = caller.kind === 'session' && caller.role === 'admin';
  const asked = query.account_id?.toLowerCase() ?? null;
  if (!isAdmin && asked !== null && asked !== caller.accountId)
    throw new ProblemError('insufficient_scope', "Another account's audit needs an administrator's session.", {
      members: { required_role: 'admin' },
    });
  return {
    ...selectionOf(query),
    accountId: isAdmin ? asked : caller.accountId,
    subjectId: subjectOf(query),
    newestFirst: query.order === 'desc',
  };
}

/** Returns the id of the agent or the computer whose events are selected; null selects all. */
function subjectOf({ agent_id, computer_id }: AuditQueryDto): string | null {
  if (agent_id !== undefined && computer_id !== undefined)
    throw new ProblemError('invalid_request', 'Give either agent_id or computer_id.', {
      errors: ['agent_id', 'computer_id'].map((field) => ({ field, message: 'give either agent_id or computer_id' })),
    });
  return (agent_id ?? computer_id)?.toLowerCase() ?? null;
}
