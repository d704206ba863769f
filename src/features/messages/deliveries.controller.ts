import { Controller, Get, HttpCode, Param, Post, Query } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';

import { AgentId } from '../agents/index.ts';
import { RequireScope } from '../../http/auth/access.ts';
import { type RequestContext, CurrentRequest } from '../../http/server/request-context.ts';
import { Idempotent } from '../../http/idempotency/idempotency.interceptor.ts';
import { ReadsModel } from '../../http/responses/reads-model.ts';
import { ListDeliveries } from './conversations/deliveries.queries.ts';
import { DeliveriesQueryDto, DeliveryPathDto, toDeliveryView, type DeliveryView, type RedeliveryView } from './deliveries.dto.ts';
import { RedeliverMessage } from './messages.commands.ts';

@Controller('api/agents/:agentId/deliveries')
export class DeliveriesController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
  ) {}

  /** Lists the webhooks and the messages about files that the agent was sent, the latest first, with what became of them. */
  @Get()
  @RequireScope('provision', 'deploy', 'manage')
  @ReadsModel('agents', 'deliveries')
  async list(
    @AgentId() agentId: string,
    @Query() query: DeliveriesQueryDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<DeliveryView[]> {
    const { limit, place } = call.page(query, 'time', 'text');
    const rows = await this.queries.execute(new ListDeliveries(agentId, call.accountId, query.status ?? null, limit, place));
    call.linkAfter(rows, limit, (last) => [last.accepted_at.toISOString(), last.message_id]);
    return rows.map(toDeliveryView);
  }

  /** Delivers a message again, behind those that wait. A message that waits itself stays where it is. */
  @Post(':messageId/redeliver')
  @HttpCode(202)
  @RequireScope('deploy')
  @ReadsModel('deliveries')
  @Idempotent({ sealedFor: 'agentId' })
  async redeliver(@Param() { agentId, messageId }: DeliveryPathDto, @CurrentRequest() call: RequestContext): Promise<RedeliveryView> {
    const { context, accountId } = call;
    const message_id = messageId.toLowerCase();
    await this.commands.execute(new RedeliverMessage(context, accountId, agentId, message_id));
    return { accepted: true, message_id };
  }
}
