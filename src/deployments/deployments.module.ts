import { Module } from '@nestjs/common';

import { AgentsModule } from '../agents/agents.module.ts';
import { EnvironmentModule } from '../environment/environment.module.ts';
import { LogsModule } from '../logs/logs.module.ts';
import { Projections } from '../platform/projections/projections.ts';
import { TemplatesModule } from '../templates/templates.module.ts';
import { AgentRecords } from './agent-records.ts';
import { AccountHasImageHandler, accountImagesProjection } from './account-images.projection.ts';
import { ContainerSteps } from './container-steps.service.ts';
import { DeploymentAnswers } from './deployment-answers.service.ts';
import { DeploymentImages } from './deployment-images.service.ts';
import { DeploymentSources } from './deployment-sources.service.ts';
import { DeployAgentHandler } from './deployments.handlers.ts';
import { deploymentsProjection, FindDeploymentHandler, ListDeploymentsHandler } from './deployments.projection.ts';
import { DeploymentSaga } from './deployments.saga.ts';
import { DeploymentsController } from './deployments.controller.ts';
import { Differences } from './differences.service.ts';
import { EngineLimits } from './engine-limits.ts';
import { EngineView } from './engine-view.service.ts';
import { VolumeMeter } from './volume-meter.service.ts';
import { VolumesSaga } from './volumes.saga.ts';

@Module({
  imports: [AgentsModule, EnvironmentModule, LogsModule, TemplatesModule],
  controllers: [DeploymentsController],
  providers: [
    AgentRecords,
    ContainerSteps,
    DeploymentAnswers,
    DeploymentImages,
    DeploymentSaga,
    DeploymentSources,
    Differences,
    EngineLimits,
    EngineView,
    VolumeMeter,
    VolumesSaga,
    AccountHasImageHandler,
    DeployAgentHandler,
    FindDeploymentHandler,
    ListDeploymentsHandler,
  ],
})
export class DeploymentsModule {
  constructor(projections: Projections) {
    projections.register(accountImagesProjection);
    projections.register(deploymentsProjection);
  }
}
