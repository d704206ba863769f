import { Body, Controller, Get, HttpCode, Param, Post, Query } from '@nestjs/common';
import { CommandBus } from '@nestjs/cqrs';

import { ApiOkResponse, ApiProduces } from '@nestjs/swagger';

import { AgentId, AgentWaits } from '../agents/index.ts';
import { RequireScope } from '../../http/auth/access.ts';
import { Operation } from '../../http/requests/operation.ts';
import { type Call, CurrentCall } from '../../http/server/call.ts';
import { EVENT_STREAM, ResponseStreams, type Streamed } from '../../http/server/response-streams.ts';
import { Idempotent } from '../../http/idempotency/idempotency.interceptor.ts';
import { LargeRead } from '../../http/limits/large-reads.interceptor.ts';
import { ReadsModel } from '../../http/responses/reads-model.ts';
import { BuildLogAnswers } from './build-log-answers.service.ts';
import { CancelDeployment, DeployAgent, RollBackAgent } from './deployments.commands.ts';
import {
  type DeployAnswer,
  DeployDto,
  type DeploymentDto,
  DeploymentsQueryDto,
  type RestDeployAnswer,
  RestDeployDto,
  RollBackDto,
} from './deployments.dto.ts';

@Controller('api')
export class DeploymentsController {
  constructor(
    private readonly commands: CommandBus,
    private readonly waits: AgentWaits,
    private readonly logs: BuildLogAnswers,
    private readonly streams: ResponseStreams,
  ) {}

  /** Deploys the agent. The fields of the body override its settings. Answers 202 when the request is stored. */
  @Post('v1/agents/:agentId/deploy')
  @Operation('deployAgent')
  @HttpCode(202)
  @RequireScope('deploy')
  @Idempotent()
  deploy(@AgentId() agentId: string, @Body() body: DeployDto, @CurrentCall() call: Call): Promise<DeployAnswer> {
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
    @CurrentCall() call: Call,
  ): Promise<RestDeployAnswer> {
    const { context, accountId, seed } = call;
    const overrides = { source, imageName, repoUrl, repoField: 'repoUrl', branch, templateId } as const;
    const answer = await this.change(new DeployAgent(context, accountId, agentId.toLowerCase(), overrides, seed), call);
    return { agentId: answer.agent_id, deploymentId: answer.deployment_id, status: answer.status, message: answer.message };
  }

  /** Deploys the image of an earlier successful deployment again, without a build. Answers 202 when the request is stored. */
  @Post('v1/agents/:agentId/rollback')
  @HttpCode(202)
  @RequireScope('deploy')
  @ReadsModel('agents', 'deployments')
  @Idempotent()
  rollBack(@AgentId() agentId: string, @Body() body: RollBackDto, @CurrentCall() call: Call): Promise<DeployAnswer> {
    const { context, accountId, seed } = call;
    return this.change(new RollBackAgent(context, accountId, agentId, body?.deployment_id?.toLowerCase() ?? null, seed), call);
  }

  /** Ends a deployment in progress. The agent goes back to its last release, or stops if it has none. */
  @Post('v1/agents/:agentId/deployments/:deploymentId/cancel')
  @HttpCode(202)
  @RequireScope('deploy')
  @ReadsModel('agents', 'deployments')
  cancel(@AgentId() agentId: string, @Param('deploymentId') deploymentId: string, @CurrentCall() call: Call): Promise<DeployAnswer> {
    return this.change(new CancelDeployment(call.context, call.accountId, agentId, deploymentId.toLowerCase()), call);
  }

  /**
   * Lists the agent's deployments, newest first. Their build logs have 1 MiB together: of one that has no room the last lines are shown, or
   * none.
   */
  @Get(['v1/agents/:agentId/deployments', 'agents/:agentId/deployments'])
  @LargeRead()
  @RequireScope('provision', 'deploy', 'manage')
  @ReadsModel('agents', 'deployments')
  list(@AgentId() agentId: string, @Query() query: DeploymentsQueryDto, @CurrentCall() { accountId }: Call): Promise<DeploymentDto[]> {
    return this.logs.list(accountId, agentId, query.limit ?? 10);
  }

  /**
   * Returns the build log so far, as text. With `Accept: text/event-stream` it continues with events `lines` as the log grows; the last
   * event, `end`, has the deployment's record.
   */
  @Get('v1/agents/:agentId/deployments/:deploymentId/log')
  @RequireScope('provision', 'deploy', 'manage')
  @ReadsModel('agents', 'deployments')
  @ApiProduces('text/plain', EVENT_STREAM)
  @ApiOkResponse({ type: String })
  async log(@AgentId() agentId: string, @Param('deploymentId') deploymentId: string, @CurrentCall() call: Call): Promise<Streamed> {
    const [{ accountId }, id] = [call, deploymentId.toLowerCase()];
    if (call.accepts(EVENT_STREAM)) {
      const after = /^\d{1,9}$/.test(call.lastEventId ?? '') ? Number(call.lastEventId) : -1;
      return this.streams.events(call, (signal) => this.logs.follow(accountId, agentId, id, after, signal));
    }
    return this.streams.text(call, () => this.logs.read(accountId, agentId, id));
  }

  private async change(command: DeployAgent | RollBackAgent | CancelDeployment, call: Call): Promise<DeployAnswer> {
    const { wait } = call;
    const { deploymentId, agent } = await this.commands.execute(command);
    const { status, message } = (await this.waits.settled(command.agentId, agent, wait, call)).state;
    return { agent_id: command.agentId, deployment_id: deploymentId, status, message };
  }
}
