import { Body, Controller, Delete, Get, HttpCode, Param, Patch, Post, Query } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';

import { RequireScope } from '../../http/auth/access.ts';
import { type RequestContext, CurrentRequest } from '../../http/server/request-context.ts';
import { Idempotent } from '../../http/idempotency/idempotency.interceptor.ts';
import { PageQueryDto } from '../../http/requests/page.dto.ts';
import { ReadsModel } from '../../http/responses/reads-model.ts';
import { SubscriptionResponses } from './subscription-responses.service.ts';
import { ChangeSubscription, CreateSubscription, DeleteSubscription, RedeliverEvent } from './subscriptions.commands.ts';
import {
  ChangeSubscriptionDto,
  CreatedSubscriptionDto,
  CreateSubscriptionDto,
  DeliveriesQueryDto,
  type EventDeliveryDto,
  SubscriptionDto,
  toEventDeliveryDto,
} from './subscriptions.dto.ts';
import { subscriptionsProjection } from './subscriptions.projection.ts';
import { ListSubscriptions } from './subscriptions.queries.ts';

@Controller('api/v1/subscriptions')
@RequireScope('manage')
export class SubscriptionsController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
    private readonly responses: SubscriptionResponses,
  ) {}

  /** Subscribes an address to the account's events from now on. Only this response contains the secret. */
  @Post()
  @Idempotent()
  @ReadsModel(subscriptionsProjection.name)
  async create(
    @Body() { url, types, agent_ids }: CreateSubscriptionDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<CreatedSubscriptionDto> {
    const choice = { types: types ?? null, agentIds: agent_ids ?? null };
    const created = await this.commands.execute(new CreateSubscription(call.context, call.accountId, url, choice, call.seed));
    return Object.assign(await this.responses.answerState(created.subscription), { secret: created.secret });
  }

  /** Lists the account's subscriptions, newest first. */
  @Get()
  @ReadsModel(subscriptionsProjection.name)
  async list(@Query() query: PageQueryDto, @CurrentRequest() call: RequestContext): Promise<SubscriptionDto[]> {
    const { limit, place } = call.page(query, 'time', 'text');
    const rows = await this.queries.execute(new ListSubscriptions(call.accountId, limit, place));
    call.linkAfter(rows, limit, (last) => [last.created_at.toISOString(), last.subscription_id]);
    return Promise.all(rows.map((row) => this.responses.toDto(row)));
  }

  @Get(':subscriptionId')
  get(@Param('subscriptionId') subscriptionId: string, @CurrentRequest() { accountId }: RequestContext): Promise<SubscriptionDto> {
    return this.responses.find(accountId, subscriptionId);
  }

  /** Changes the fields that are present. Pending deliveries go to the new address. */
  @Patch(':subscriptionId')
  async change(
    @Param('subscriptionId') subscriptionId: string,
    @Body() changes: ChangeSubscriptionDto,
    @CurrentRequest() { context, accountId }: RequestContext,
  ): Promise<SubscriptionDto> {
    return this.responses.answerState(await this.commands.execute(new ChangeSubscription(context, accountId, subscriptionId, changes)));
  }

  /** Ends the subscription. What was not sent yet is not sent any more. */
  @Delete(':subscriptionId')
  @HttpCode(204)
  delete(@Param('subscriptionId') subscriptionId: string, @CurrentRequest() { context, accountId }: RequestContext): Promise<void> {
    return this.commands.execute(new DeleteSubscription(context, accountId, subscriptionId));
  }

  /** Lists what was sent, newest first: the last 5,000 events, and all that are pending. */
  @Get(':subscriptionId/deliveries')
  async deliveries(
    @Param('subscriptionId') subscriptionId: string,
    @Query() query: DeliveriesQueryDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<EventDeliveryDto[]> {
    const { limit, place } = call.page(query, 'position');
    const page = { status: query.status ?? null, limit, before: place?.[0] ?? null };
    const found = await this.responses.list(call.accountId, subscriptionId, page);
    call.linkAfter(found, limit, (last) => [last.position]);
    return found.map(toEventDeliveryDto);
  }

  /** Sends the event again, whatever the outcome of its delivery. */
  @Post(':subscriptionId/deliveries/:eventId/redeliver')
  @HttpCode(202)
  @Idempotent()
  redeliver(
    @Param('subscriptionId') subscriptionId: string,
    @Param('eventId') eventId: string,
    @CurrentRequest() { context, accountId }: RequestContext,
  ): Promise<void> {
    return this.commands.execute(new RedeliverEvent(context, accountId, subscriptionId, eventId));
  }
}
