import { Body, Controller, Get, HttpCode, Param, Post, Query } from '@nestjs/common';

import { AgentId } from '../agents/index.ts';
import { RequireScope } from '../platform/http/auth/access.ts';
import { type Call, CurrentCall } from '../platform/http/call.ts';
import { Idempotent } from '../platform/http/idempotency/idempotency.interceptor.ts';
import { ReadsModel } from '../platform/http/responses/reads-model.ts';
import { DeploymentAnswers, type DeployAnswer, type RestDeployAnswer } from './deployment-answers.service.ts';
import { DeployDto, type DeploymentDto, DeploymentsQueryDto, RestDeployDto } from './deployments.dto.ts';

@Controller('api')
export class DeploymentsController {
  constructor(private readonly answers: DeploymentAnswers) {}

  /** Deploys the agent. The fields of the body override its settings. Answers 202 when the request is stored. */
  @Post('v1/agents/:agentId/deploy')
  @HttpCode(202)
  @RequireScope('deploy')
  @Idempotent()
  deploy(@AgentId() agentId: string, @Body() body: DeployDto, @CurrentCall() call: Call): Promise<DeployAnswer> {
    const { image_name: imageName, repo_url: repoUrl, branch } = body ?? {};
    return this.answers.deploy(agentId, { imageName, repoUrl, branch }, call);
  }

  /** Redeploys the agent from an image or a template. */
  @Post('deploy')
  @HttpCode(202)
  @RequireScope('deploy')
  @Idempotent()
  redeploy(@Body() body: RestDeployDto, @CurrentCall() call: Call): Promise<RestDeployAnswer> {
    return this.answers.redeploy(body, call);
  }

  /** Lists the agent's deployments, newest first. */
  @Get(['v1/agents/:agentId/deployments', 'agents/:agentId/deployments'])
  @RequireScope('provision', 'deploy', 'manage')
  @ReadsModel('agents', 'deployments')
  list(@AgentId() agentId: string, @Query() query: DeploymentsQueryDto, @CurrentCall() { accountId }: Call): Promise<DeploymentDto[]> {
    return this.answers.list(accountId, agentId, query.limit ?? 10);
  }

  /** Returns the build log so far, as text. */
  @Get('v1/agents/:agentId/deployments/:deploymentId/log')
  @RequireScope('provision', 'deploy', 'manage')
  @ReadsModel('agents', 'deployments')
  async log(@AgentId() agentId: string, @Param('deploymentId') deploymentId: string, @CurrentCall() call: Call): Promise<string> {
    call.setHeader('content-type', 'text/plain; charset=utf-8');
    return this.answers.log(call.accountId, agentId, deploymentId);
  }
}
