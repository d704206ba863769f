import { Body, Controller, HttpCode, Param, Post } from '@nestjs/common';
import { CommandBus } from '@nestjs/cqrs';

import { AgentId, AgentWaits } from '../agents/index.ts';
import { RequireScope } from '../../http/auth/access.ts';
import { Operation } from '../../http/requests/operation.ts';
import { type RequestContext, CurrentRequest } from '../../http/server/request-context.ts';
import { Idempotent } from '../../http/idempotency/idempotency.interceptor.ts';
import { ReadsModel } from '../../http/responses/reads-model.ts';
import { CancelDeployment, DeployAgent, RollBackAgent } from './deployments.commands.ts';
import { type DeployAnswer, DeployDto, type RestDeployAnswer, RestDeployDto, RollBackDto } from './deployments.dto.ts';

@Controller('api')
export class DeploymentsController {
  constructor(
    private readonly commands: CommandBus,
    private readonly waits: AgentWaits,
  ) {}

  /** Deploys the agent. The fields of the body override its settings. Answers 202 when the request is stored. */
  @Post('v1/agents/:agentId/deploy')
  @Operation('deployAgent')
  @HttpCode(202)
  @RequireScope('deploy')
  @Idempotent()
  deploy(@AgentId() agentId: string, @Body() body: DeployDto, @CurrentRequest() call: RequestContext): Promise<DeployAnswer> {
    const { context, accountId, seed } = call;
    const { image_name: imageName, repo_url: repoUrl, branch } = body ?? {};
    return this.change(new DeployAgent(context, accountId, agentId, { imageName, repoUrl, branch }, seed), call);
  }

  /** Redeploys the agent from an image or a template. */
  @Post('deploy')
  @HttpCode(202)
  @RequireScope('deploy')
  @Idempotent()
  async redeploy(
    @Body() { agentId, source, imageName, repoUrl, branch, templateId }: RestDeployDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<RestDeployAnswer> {
    const { context, accountId, seed } = call;
    const overrides = { source, imageName, repoUrl, spelling: 'camelCase', branch, templateId } as const;
    const answer = await this.change(new DeployAgent(context, accountId, agentId.toLowerCase(), overrides, seed), call);
    return { agentId: answer.agent_id, deploymentId: answer.deployment_id, status: answer.status, message: answer.message };
  }

  /** Deploys the image of an earlier successful deployment again, without a build. Answers 202 when the request is stored. */
  @Post('v1/agents/:agentId/rollback')
  @HttpCode(202)
  @RequireScope('deploy')
  @ReadsModel('agents', 'deployments')
  @Idempotent()
  rollBack(@AgentId() agentId: string, @Body() body: RollBackDto, @CurrentRequest() call: RequestContext): Promise<DeployAnswer> {
    const { context, accountId, seed } = call;
    return this.change(new RollBackAgent(context, accountId, agentId, body?.deployment_id?.toLowerCase() ?? null, seed), call);
  }

  /** Ends a deployment in progress. The agent goes back to its last release, or stops if it has none. */
  @Post('v1/agents/:agentId/deployments/:deploymentId/cancel')
  @HttpCode(202)
  @RequireScope('deploy')
  @ReadsModel('agents', 'deployments')
  cancel(
    @AgentId() agentId: string,
    @Param('deploymentId') deploymentId: string,
    @CurrentRequest() call: RequestContext,
  ): Promise<DeployAnswer> {
    return this.change(new CancelDeployment(call.context, call.accountId, agentId, deploymentId.toLowerCase()), call);
  }

  private async change(command: DeployAgent | RollBackAgent | CancelDeployment, call: RequestContext): Promise<DeployAnswer> {
    const { wait } = call;
    const { deploymentId, agent } = await this.commands.execute(command);
    const { status, message } = (await this.waits.settled(command.agentId, agent, wait, call)).state;
    return { agent_id: command.agentId, deployment_id: deploymentId, status, message };
  }
}
