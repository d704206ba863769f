import { Body, Controller, Get, HttpCode, Param, Post, Query, Res } from '@nestjs/common';
import type { FastifyReply } from 'fastify';

import { AgentId } from '../agents/index.ts';
import { RequireScope } from '../platform/http/auth/access.ts';
import { Context, CurrentCaller } from '../platform/http/request.ts';
import type { Caller } from '../platform/context/caller.ts';
import type { CommandContext } from '../platform/context/command-context.ts';
import { Idempotent, IdempotencyKey } from '../platform/http/idempotency/idempotency.interceptor.ts';
import { ReadsModel } from '../platform/http/responses/positions.ts';
import { PreferredWait } from '../platform/http/responses/prefer.ts';
import { DeploymentAnswers, type DeployAnswer, type RestDeployAnswer } from './deployment-answers.service.ts';
import { DeployBody, DeploymentsQuery, RestDeployBody, type DeploymentView } from './deployment.dto.ts';

@Controller('api')
export class DeploymentsController {
  constructor(private readonly answers: DeploymentAnswers) {}

  /** Deploys the agent. The fields of the body override its settings. Answers 202 when the request is stored. */
  @Post('v1/agents/:agentId/deploy')
  @HttpCode(202)
  @RequireScope('deploy')
  @Idempotent()
  deploy(
    @AgentId() agentId: string,
    @Body() body: DeployBody,
    @CurrentCaller() caller: Caller,
    @Context() context: CommandContext,
    @PreferredWait() wait: number | null,
    @IdempotencyKey() seed: string | null,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<DeployAnswer> {
    const { image_name: imageName, repo_url: repoUrl, branch } = body ?? {};
    return this.answers.deploy({ caller, context, seed, wait, reply }, agentId, { imageName, repoUrl, branch });
  }

  /** Redeploys the agent from an image or a template. */
  @Post('deploy')
  @HttpCode(202)
  @RequireScope('deploy')
  @Idempotent()
  redeploy(
    @Body() body: RestDeployBody,
    @CurrentCaller() caller: Caller,
    @Context() context: CommandContext,
    @PreferredWait() wait: number | null,
    @IdempotencyKey() seed: string | null,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<RestDeployAnswer> {
    return this.answers.redeploy({ caller, context, seed, wait, reply }, body);
  }

  /** Lists the agent's deployments, newest first. */
  @Get(['v1/agents/:agentId/deployments', 'agents/:agentId/deployments'])
  @RequireScope('provision', 'deploy', 'manage')
  @ReadsModel('agents', 'deployments')
  list(@AgentId() agentId: string, @Query() query: DeploymentsQuery, @CurrentCaller() caller: Caller): Promise<DeploymentView[]> {
    return this.answers.list(caller.accountId, agentId, query.limit ?? 10);
  }

  /** Returns the build log so far, as text. */
  @Get('v1/agents/:agentId/deployments/:deploymentId/log')
  @RequireScope('provision', 'deploy', 'manage')
  @ReadsModel('agents', 'deployments')
  async log(
    @AgentId() agentId: string,
    @Param('deploymentId') deploymentId: string,
    @CurrentCaller() caller: Caller,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<string> {
    void reply.header('content-type', 'text/plain; charset=utf-8');
    return this.answers.log(caller.accountId, agentId, deploymentId);
  }
}
