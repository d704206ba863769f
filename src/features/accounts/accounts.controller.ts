import { Body, Controller, Get, Param, Post, Put, Query } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';

import { RequireAdmin } from '../../http/auth/access.ts';
import { type RequestContext, CurrentRequest } from '../../http/server/request-context.ts';
import { Idempotent } from '../../http/idempotency/idempotency.interceptor.ts';
import { PageQueryDto } from '../../http/requests/page.dto.ts';
import { ReadsModel } from '../../http/responses/reads-model.ts';
import { AccountDto, AssignPlanDto, CreateAccountDto, toAccountDto } from './accounts.dto.ts';
import { AssignPlan, OpenAccount } from './accounts.commands.ts';
import { accountsProjection } from './accounts.projection.ts';
import { ListAccounts } from './accounts.queries.ts';

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
  async list(@Query() query: PageQueryDto, @CurrentRequest() call: RequestContext): Promise<AccountDto[]> {
    const { limit, place } = call.page(query, 'time', 'text');
    const rows = await this.queries.execute(new ListAccounts(limit, place));
    call.linkAfter(rows, limit, (last) => [last.created_at.toISOString(), last.account_id]);
    return rows.map(toAccountDto);
  }

  /** Opens an account with its first password, on behalf of its holder. */
  @Post()
  @Idempotent()
  async create(
    @Body() { email, password, name, role = 'member' }: CreateAccountDto,
    @CurrentRequest() { context, seed }: RequestContext,
  ): Promise<AccountDto> {
    return toAccountDto(await this.commands.execute(new OpenAccount(context, { email, password, name, role }, seed)));
  }

  /** Assigns a plan, which replaces the account's current one. */
  @Put(':accountId/plan')
  async assignPlan(
    @Param('accountId') accountId: string,
    @Body() { plan, seats, payment_method, computers }: AssignPlanDto,
    @CurrentRequest() { context }: RequestContext,
  ): Promise<AccountDto> {
    const assigned = { name: plan, seats, paymentMethod: payment_method, computers };
    return toAccountDto(await this.commands.execute(new AssignPlan(context, accountId, assigned)));
  }
}
