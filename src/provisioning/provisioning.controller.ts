import { Body, Controller, Post, Res } from '@nestjs/common';
import { CommandBus } from '@nestjs/cqrs';
import type { FastifyReply } from 'fastify';

import { AgentAnswers, type AgentRow, AgentView, agentView, RestAgentView, restAgentView } from '../agents/index.ts';
import { RequireScope } from '../platform/http/auth/access.ts';
import { Context, CurrentCaller } from '../platform/http/request.ts';
import type { Caller } from '../platform/context/caller.ts';
import type { CommandContext } from '../platform/context/command-context.ts';
import { Idempotent, IdempotencyKey } from '../platform/http/idempotency/idempotency.interceptor.ts';
import { PreferredWait } from '../platform/http/responses/prefer.ts';
import { CreateAgentBody, createRequest, ProvisionBody, provisionRequest } from './provision.dto.ts';
import { Provision } from './provision.handlers.ts';

type Seed = string | null;
type Seconds = number | null;

@Controller('api')
export class ProvisioningController {
  constructor(
    private readonly commands: CommandBus,
    private readonly answers: AgentAnswers,
  ) {}

  /** Makes an agent and deploys it; answers 200 with the existing agent if one has the same external_id. */
  @Post('v1/provision')
  @RequireScope('provision')
  @Idempotent()
  async provision(
    @Body() body: ProvisionBody,
    @CurrentCaller() { accountId }: Caller,
    @Context() context: CommandContext,
    @IdempotencyKey() seed: Seed,
    @PreferredWait() wait: Seconds,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<AgentView> {
    const provision = new Provision(context, accountId, provisionRequest(body), seed);
    return this.#answer(provision, '/api/v1/agents', agentView, wait, reply);
  }

  /** Makes an agent from a template and deploys it; answers 200 with the existing agent if one has the same externalId. */
  @Post('agents')
  @RequireScope('provision')
  @Idempotent()
  async create(
    @Body() body: CreateAgentBody,
    @CurrentCaller() { accountId }: Caller,
    @Context() context: CommandContext,
    @IdempotencyKey() seed: Seed,
    @PreferredWait() wait: Seconds,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<RestAgentView> {
    const provision = new Provision(context, accountId, createRequest(body), seed);
    return this.#answer(provision, '/api/agents', restAgentView, wait, reply);
  }

  async #answer<View>(
    provision: Provision,
    agents: string,
    view: (row: AgentRow) => View,
    wait: Seconds,
    reply: FastifyReply,
  ): Promise<View> {
    const { agentId, made } = await this.commands.execute(provision);
    const { context, accountId } = provision;
    const answer = await this.answers.settled(view, { context, accountId, agentId }, wait, reply);
    void reply.status(made ? 201 : 200).header('location', `${agents}/${agentId}`);
    return answer;
  }
}
