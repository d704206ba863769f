import { Body, Controller, Post } from '@nestjs/common';
import { CommandBus } from '@nestjs/cqrs';

import { AgentAnswers, type ShownAgent, AgentDto, toAgentDto, RestAgentDto, toRestAgentDto } from '../agents/index.ts';
import { RequireScope } from '../../http/auth/access.ts';
import { Operation } from '../../http/requests/operation.ts';
import { requireScope } from '../../http/auth/scopes.ts';
import { type RequestContext, CurrentRequest } from '../../http/server/request-context.ts';
import { Idempotent } from '../../http/idempotency/idempotency.interceptor.ts';
import { usesSecrets, type ProvisionRequest } from './provision-request.ts';
import { CreateAgentDto, createRequest, ProvisionAgentDto, provisionRequest } from './provisioning.dto.ts';
import { Provision } from './provisioning.commands.ts';

@Controller('api')
export class ProvisioningController {
  constructor(
    private readonly commands: CommandBus,
    private readonly answers: AgentAnswers,
  ) {}

  /** Makes an agent and deploys it; answers 200 with the existing agent if one has the same external_id. */
  @Post('v1/provision')
  @Operation('provisionAgent')
  @RequireScope('provision')
  @Idempotent()
  async provision(@Body() body: ProvisionAgentDto, @CurrentRequest() call: RequestContext): Promise<AgentDto> {
    return toAgentDto(await this.makeAgent(provisionRequest(body), '/api/v1/agents', call));
  }

  /** Makes an agent from a template and deploys it; answers 200 with the existing agent if one has the same externalId. */
  @Post('agents')
  @Operation('createAgent')
  @RequireScope('provision')
  @Idempotent()
  async create(@Body() body: CreateAgentDto, @CurrentRequest() call: RequestContext): Promise<RestAgentDto> {
    return toRestAgentDto(await this.makeAgent(createRequest(body), '/api/agents', call));
  }

  private async makeAgent(request: ProvisionRequest, agents: string, call: RequestContext): Promise<ShownAgent> {
    const { caller, context, accountId, seed, wait } = call;
    // An owner can read everything that an agent is given, so this requires the same scope as the routes of variables.
    if (usesSecrets(request)) requireScope(caller, ['manage'], 'A variable that takes its value from a secret');
    const { agentId, agent, isNew } = await this.commands.execute(new Provision(context, accountId, request, seed));
    const row = await this.answers.showSettled(agentId, agent, wait, call);
    call.setStatus(isNew ? 201 : 200);
    call.setHeader('location', `${agents}/${agentId}`);
    return row;
  }
}
