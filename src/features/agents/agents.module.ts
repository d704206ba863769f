import { Module } from '@nestjs/common';

import { Projections } from '../../eventsourcing/projections/projections.ts';
import { SandboxesModule } from '../../sandboxes/sandboxes.module.ts';
import { TemplatesModule } from '../templates/templates.module.ts';
import { AgentConnections } from './activity/agent-connections.service.ts';
import { AgentKeys } from './activity/agent-keys.service.ts';
import { AgentWakes } from './activity/agent-wakes.service.ts';
import { AgentResponses } from './agent-responses.ts';
import { AwaitAgentHandler } from './agent-wait.handlers.ts';
import { AgentWaits } from './agent-waits.ts';
import {
  AgentWriter,
  ConfigureAgentHandler,
  DeleteAgentHandler,
  RestartAgentHandler,
  SleepAgentHandler,
  StartAgentHandler,
  StopAgentHandler,
} from './agents.handlers.ts';
import {
  agentsProjection,
  ListAgentsThatMayWriteHandler,
  ListAllAgentsHandler,
  GetAgentHandler,
  ListAgentsHandler,
  ListLiveAgentIdsHandler,
} from './agents.projection.ts';
import { Agents } from './aggregate/agents.service.ts';
import { AllowLists } from './policies/allow-lists.service.ts';
import { AgentsController, AgentsV1Controller } from './agents.controller.ts';
import { RunSettingBounds } from './policies/run-setting-bounds.service.ts';
import { SourceHosts } from './policies/source-hosts.service.ts';
import { SchemasController } from './schemas.controller.ts';
import { ReleaseRuns } from './running/release-runs.service.ts';

@Module({
  imports: [SandboxesModule, TemplatesModule],
  controllers: [AgentsV1Controller, AgentsController, SchemasController],
  providers: [
    Agents,
    AgentResponses,
    AgentConnections,
    AgentKeys,
    AgentWaits,
    AgentWakes,
    AgentWriter,
    AllowLists,
    ReleaseRuns,
    RunSettingBounds,
    SourceHosts,
    StartAgentHandler,
    StopAgentHandler,
    RestartAgentHandler,
    SleepAgentHandler,
    ConfigureAgentHandler,
    DeleteAgentHandler,
    ListAllAgentsHandler,
    GetAgentHandler,
    ListAgentsHandler,
    ListLiveAgentIdsHandler,
    ListAgentsThatMayWriteHandler,
    AwaitAgentHandler,
  ],
  exports: [Agents, AgentResponses, AgentWaits, AgentWakes, AllowLists, ReleaseRuns, RunSettingBounds, SourceHosts],
})
export class AgentsModule {
  constructor(projections: Projections) {
    projections.register(agentsProjection);
  }
}
