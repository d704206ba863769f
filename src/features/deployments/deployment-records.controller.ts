import { Controller, Get, Param, Query } from '@nestjs/common';
import { ApiOkResponse, ApiProduces, ApiTags } from '@nestjs/swagger';

import { RequireScope } from '../../http/auth/access.ts';
import { LargeRead } from '../../http/limits/large-reads.interceptor.ts';
import { Operation } from '../../http/requests/operation.ts';
import { ReadsModel } from '../../http/responses/reads-model.ts';
import { type RequestContext, CurrentRequest } from '../../http/server/request-context.ts';
import { EVENT_STREAM, ResponseStreams, type Streamed } from '../../http/server/response-streams.ts';
import { AgentId } from '../agents/index.ts';
import { BuildLogResponses } from './build-log-responses.service.ts';
import { type DeploymentDto, DeploymentsQueryDto } from './deployments.dto.ts';

/** Shows what became of deployments: their records and their build logs. */
@Controller('api')
@ApiTags('Deployments')
export class DeploymentRecordsController {
  constructor(
    private readonly logs: BuildLogResponses,
    private readonly streams: ResponseStreams,
  ) {}

  /**
   * Lists the agent's deployments, newest first. Their build logs have 1 MiB together: of one that has no room the last lines are shown, or
   * none.
   */
  @Get(['v1/agents/:agentId/deployments', 'agents/:agentId/deployments'])
  @Operation('listDeployments')
  @LargeRead()
  @RequireScope('provision', 'deploy', 'manage')
  @ReadsModel('agents', 'deployments')
  list(
    @AgentId() agentId: string,
    @Query() query: DeploymentsQueryDto,
    @CurrentRequest() { accountId }: RequestContext,
  ): Promise<DeploymentDto[]> {
    return this.logs.list(accountId, agentId, query.limit ?? 10);
  }

  /**
   * Returns the build log so far, as text. With `Accept: text/event-stream` it continues with events `lines` as the log grows; the last
   * event, `end`, has the deployment's record.
   */
  @Get('v1/agents/:agentId/deployments/:deploymentId/log')
  @Operation('readBuildLog')
  @RequireScope('provision', 'deploy', 'manage')
  @ReadsModel('agents', 'deployments')
  @ApiProduces('text/plain', EVENT_STREAM)
  @ApiOkResponse({ type: String })
  async log(
    @AgentId() agentId: string,
    @Param('deploymentId') deploymentId: string,
    @CurrentRequest() call: RequestContext,
  ): Promise<Streamed> {
    const [{ accountId }, id] = [call, deploymentId.toLowerCase()];
    if (call.accepts(EVENT_STREAM)) {
      const after = /^\d{1,9}$/.test(call.lastEventId ?? '') ? Number(call.lastEventId) : -1;
      return this.streams.events(call, (signal) => this.logs.follow(accountId, agentId, id, after, signal));
    }
    return this.streams.text(call, () => this.logs.read(accountId, agentId, id));
  }
}
