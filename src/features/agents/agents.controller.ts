import { Body, Controller, Delete, Get, HttpCode, Patch, Post, Query, type Type } from '@nestjs/common';
import { ApiResponse } from '@nestjs/swagger';

import { RequireScope } from '../../http/auth/access.ts';
import { Operation, REST_SUFFIX } from '../../http/requests/operation.ts';
import { type RequestContext, CurrentRequest } from '../../http/server/request-context.ts';
import type { Scope } from '../../kernel/context/caller.ts';
import { ReadsModel } from '../../http/responses/reads-model.ts';
import { snakeCased } from '../../kernel/text/spelling.ts';
import { AgentResponses } from './agent-responses.ts';
import { AgentId } from './fields/agent-id.ts';
import {
  AgentDto,
  ListAgentsQueryDto,
  RestAgentDto,
  toAgentDto,
  toRestAgentDto,
  UpdateAgentDto,
  UpdateRestAgentDto,
  WaitQueryDto,
} from './agents.dto.ts';
import type { AgentView } from './agents.table.ts';
import { ConfigureAgent, DeleteAgent, RestartAgent, SleepAgent, StartAgent, StopAgent } from './agents.commands.ts';

/** One of the two APIs. They differ in the path, the names of an agent's fields, and the scopes that may read agents. */
interface Spelling<View> {
  path: string;
  /** The end of the operations' names. */
  suffix: string;
  View: Type<View>;
  viewOf: (row: AgentView) => View;
  readers: Scope[];
}

/** Returns a controller with the routes that both APIs have. */
function agentRoutes<View>({ path, suffix, View, viewOf, readers }: Spelling<View>) {
  @Controller(path)
  class AgentRoutes {
    constructor(protected readonly answers: AgentResponses) {}

    /** Lists the account's agents, newest first. */
    @Get()
    @Operation(`listAgents${suffix}`)
    @RequireScope(...readers)
    @ReadsModel('agents')
    @ApiResponse({ status: 200, type: [View] })
    async list(@Query() query: ListAgentsQueryDto, @CurrentRequest() call: RequestContext): Promise<View[]> {
      return (await this.answers.list(query, call)).map(viewOf);
    }

    @Get(':agentId')
    @Operation(`getAgent${suffix}`)
    @RequireScope(...readers)
    @ReadsModel('agents')
    @ApiResponse({ status: 200, type: View })
    async get(@AgentId() agentId: string, @CurrentRequest() call: RequestContext): Promise<View> {
      return viewOf(await this.answers.show(agentId, call));
    }

    /** Answers as soon as the agent has one of the statuses, or with 408 `wait_timeout` if that takes too long. */
    @Get(':agentId/wait')
    @Operation(`waitForAgent${suffix}`)
    @RequireScope('provision', 'deploy', 'manage')
    @ApiResponse({ status: 200, type: View })
    async wait(@AgentId() agentId: string, @Query() query: WaitQueryDto, @CurrentRequest() call: RequestContext): Promise<View> {
      return viewOf(await this.answers.wait(agentId, query, call));
    }

    /** Starts the agent, or wakes it if it sleeps. */
    @Post(':agentId/start')
    @Operation(`startAgent${suffix}`)
    @HttpCode(202)
    @RequireScope('deploy')
    @ApiResponse({ status: 202, type: View })
    start(@AgentId() agentId: string, @CurrentRequest() call: RequestContext): Promise<View> {
      return this.change(StartAgent, agentId, call);
    }

    @Post(':agentId/stop')
    @Operation(`stopAgent${suffix}`)
    @HttpCode(202)
    @RequireScope('deploy')
    @ApiResponse({ status: 202, type: View })
    stop(@AgentId() agentId: string, @CurrentRequest() call: RequestContext): Promise<View> {
      return this.change(StopAgent, agentId, call);
    }

    /** Replaces the agent's container with a new one, with the current variables. */
    @Post(':agentId/restart')
    @Operation(`restartAgent${suffix}`)
    @HttpCode(202)
    @RequireScope('deploy')
    @ApiResponse({ status: 202, type: View })
    restart(@AgentId() agentId: string, @CurrentRequest() call: RequestContext): Promise<View> {
      return this.change(RestartAgent, agentId, call);
    }

    @Post(':agentId/sleep')
    @Operation(`sleepAgent${suffix}`)
    @HttpCode(202)
    @RequireScope('deploy')
    @ApiResponse({ status: 202, type: View })
    sleep(@AgentId() agentId: string, @CurrentRequest() call: RequestContext): Promise<View> {
      return this.change(SleepAgent, agentId, call);
    }

    /**
     * Deletes the agent's container, volume and record. Answers 204 once they are gone, or 202 if that takes over 30 s and continues by
     * itself.
     */
    @Delete(':agentId')
    @Operation(`deleteAgent${suffix}`)
    @HttpCode(204)
    @RequireScope('manage')
    @ApiResponse({ status: 204, type: View })
    async remove(@AgentId() agentId: string, @CurrentRequest() call: RequestContext): Promise<View | undefined> {
      const { context, accountId, ifMatch } = call;
      const row = await this.answers.remove(new DeleteAgent(context, accountId, agentId, ifMatch), call);
      return row && viewOf(row);
    }

    async change(Write: typeof StartAgent, agentId: string, call: RequestContext): Promise<View> {
      const { context, accountId, ifMatch, wait } = call;
      return viewOf(await this.answers.change(new Write(context, accountId, agentId, ifMatch), wait, call));
    }
  }
  return AgentRoutes;
}

/** Serves agents on the REST API. */
export class AgentsController extends agentRoutes({
  path: 'api/agents',
  suffix: REST_SUFFIX,
  View: RestAgentDto,
  viewOf: toRestAgentDto,
  readers: ['provision', 'deploy', 'manage'],
}) {
  /** Changes the settings that the body names. */
  @Patch(':agentId')
  @Operation('updateAgentRest')
  @RequireScope('manage')
  async configure(
    @AgentId() agentId: string,
    @Body() body: UpdateRestAgentDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<RestAgentDto> {
    const { context, accountId, ifMatch } = call;
    const configure = new ConfigureAgent(context, accountId, agentId, ifMatch, { changes: snakeCased(body), spelling: 'camelCase' });
    return toRestAgentDto(await this.answers.change(configure, null, call));
  }
}

/** Serves agents on the Provisioning API. */
export class AgentsV1Controller extends agentRoutes({
  path: 'api/v1/agents',
  suffix: '',
  View: AgentDto,
  viewOf: toAgentDto,
  readers: ['provision'],
}) {
  /** Changes the settings that the body names. */
  @Patch(':agentId')
  @Operation('updateAgent')
  @RequireScope('manage')
  async configure(@AgentId() agentId: string, @Body() changes: UpdateAgentDto, @CurrentRequest() call: RequestContext): Promise<AgentDto> {
    const { context, accountId, ifMatch } = call;
    const configure = new ConfigureAgent(context, accountId, agentId, ifMatch, { changes, spelling: 'snake_case' });
    return toAgentDto(await this.answers.change(configure, null, call));
  }
}
