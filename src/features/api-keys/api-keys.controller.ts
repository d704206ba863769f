import { Body, Controller, Delete, Get, HttpCode, Param, Post, Query } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';

import { Clock } from '../../kernel/clock.ts';
import { RequireSession } from '../../http/auth/access.ts';
import { type RequestContext, CurrentRequest } from '../../http/server/request-context.ts';
import { scopes } from '../../kernel/context/caller.ts';
import { Idempotent } from '../../http/idempotency/idempotency.interceptor.ts';
import { PageQueryDto } from '../../http/requests/page.dto.ts';
import { ReadsModel } from '../../http/responses/reads-model.ts';
import { ApiKeyDto, CreateApiKeyDto, CreatedApiKeyDto, toApiKeyDto, toCreatedApiKeyDto } from './api-keys.dto.ts';
import { IssueApiKey, RevokeApiKey } from './api-keys.commands.ts';
import { apiKeysProjection } from './api-keys.projection.ts';
import { ListApiKeys } from './api-keys.queries.ts';
import { readIssuedKey } from './api-keys.table.ts';

@Controller('api/v1/keys')
@RequireSession()
export class ApiKeysController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
    private readonly clock: Clock,
  ) {}

  /** Issues a key. Only this response contains the key itself. */
  @Post()
  @Idempotent()
  async create(
    @Body() { name, scopes: wanted, expires_in_days }: CreateApiKeyDto,
    @CurrentRequest() { context, accountId, seed }: RequestContext,
  ): Promise<CreatedApiKeyDto> {
    const wish = { name, scopes: wanted ?? [...scopes], expiresInDays: expires_in_days ?? null };
    const { key, rawKey } = await this.commands.execute(new IssueApiKey(context, accountId, wish, seed));
    return toCreatedApiKeyDto(readIssuedKey(key), this.clock.now(), rawKey);
  }

  /** Lists the account's keys, newest first, including revoked ones. */
  @Get()
  @ReadsModel(apiKeysProjection.name)
  async list(@Query() query: PageQueryDto, @CurrentRequest() call: RequestContext): Promise<ApiKeyDto[]> {
    const { limit, place } = call.page(query, 'time', 'text');
    const rows = await this.queries.execute(new ListApiKeys(call.accountId, limit, place));
    call.linkAfter(rows, limit, (last) => [last.created_at.toISOString(), last.key_id]);
    const now = this.clock.now();
    return rows.map((row) => toApiKeyDto(row, now));
  }

  /** Revokes a key, which is refused as soon as this call has answered. */
  @Delete(':keyId')
  @HttpCode(204)
  revoke(@Param('keyId') keyId: string, @CurrentRequest() { context, accountId }: RequestContext): Promise<void> {
    return this.commands.execute(new RevokeApiKey(context, accountId, keyId));
  }
}
