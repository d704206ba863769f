import { Module } from '@nestjs/common';

import { AgentsModule } from '../agents/agents.module.ts';
import { EnvironmentModule } from '../environment/environment.module.ts';
import { LogsModule } from '../logs/logs.module.ts';
import { Projections } from '../platform/projections/projections.ts';
import { TemplatesModule } from '../templates/templates.module.ts';
import { AgentRecords } from './records/agent-records.ts';
import { AccountHasImageHandler, accountImagesProjection } from './images/account-images.projection.ts';
import { ContainerSteps } from './containers/container-steps.service.ts';
import { DeploymentAnswers } from './deployment-answers.service.ts';
import { DeploymentImages } from './images/deployment-images.service.ts';
import { DeploymentSources } from './sources/deployment-sources.service.ts';
import { DeployAgentHandler } from './deployments.handlers.ts';
import { deploymentsProjection, FindDeploymentHandler, ListDeploymentsHandler } from './deployments.projection.ts';
import { DeploymentsSaga } from './deployments.saga.ts';
import { DeploymentsController } from './deployments.controller.ts';
import { Differences } from './differences/differences.service.ts';
import { EngineLimits } from './containers/engine-limits.ts';
import { EngineView } from './containers/engine-view.service.ts';
import { VolumeMeter } from './volumes/volume-meter.service.ts';
import { VolumesSaga } from './volumes/volumes.saga.ts';

@Module({
  imports: [AgentsModule, EnvironmentModule, LogsModule, TemplatesModule],
  controllers: [DeploymentsController],
  providers: [
    AgentRecords,
    ContainerSteps,
    DeploymentAnswers,
    DeploymentImages,
    DeploymentsSaga,
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
