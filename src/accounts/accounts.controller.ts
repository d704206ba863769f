import { Body, Controller, Get, Param, Post, Put, Query, Req, Res } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import type { FastifyReply, FastifyRequest } from 'fastify';

import { RequireAdmin } from '../platform/http/auth/access.ts';
import { Context } from '../platform/http/request.ts';
import type { CommandContext } from '../platform/context/command-context.ts';
import { Idempotent, IdempotencyKey } from '../platform/http/idempotency/idempotency.interceptor.ts';
import { decodeCursor, encodeCursor, linkNextPage } from '../platform/http/responses/paging.ts';
import { PageQuery } from '../platform/http/requests/page.dto.ts';
import { ReadsModel } from '../platform/http/responses/positions.ts';
import { AccountCreation, accountView, AccountView, PlanAssignment } from './account.dto.ts';
import { AssignPlan, OpenAccount } from './accounts.handlers.ts';
import { accountsProjection, GetWrittenAccount, ListAccounts } from './accounts.projection.ts';

@Controller('api/admin/accounts')
@RequireAdmin()
export class AccountsController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
  ) {}

  /** Lists all accounts, newest first. */
  @Get()
  @ReadsModel(accountsProjection.name)
  async list(
    @Query() { limit = 50, cursor }: PageQuery,
    @Req() request: FastifyRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<AccountView[]> {
    const rows = await this.queries.execute(new ListAccounts(limit, decodeCursor(cursor, 2)));
    const last = rows.at(-1);
    if (rows.length === limit && last) linkNextPage(request, reply, encodeCursor([last.created_at.toISOString(), last.account_id]));
    return rows.map(accountView);
  }

  /** Opens an account with its first password, on behalf of its holder. */
  @Post()
  @Idempotent()
  async create(
    @Body() { email, password, name, role = 'member' }: AccountCreation,
    @Context() context: CommandContext,
    @IdempotencyKey() seed: string | null,
  ): Promise<AccountView> {
    const id = await this.commands.execute(new OpenAccount(context, { email, password, name, role }, seed));
    return accountView(await this.queries.execute(new GetWrittenAccount(id)));
  }

  /** Assigns a plan, which replaces the account's current one. */
  @Put(':accountId/plan')
  async assignPlan(
    @Param('accountId') accountId: string,
    @Body() { plan, seats, payment_method }: PlanAssignment,
    @Context() context: CommandContext,
  ): Promise<AccountView> {
    await this.commands.execute(new AssignPlan(context, accountId, { name: plan, seats, paymentMethod: payment_method }));
    return accountView(await this.queries.execute(new GetWrittenAccount(accountId)));
  }
}
