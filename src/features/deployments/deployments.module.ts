import { Module } from '@nestjs/common';

import { AgentsModule } from '../agents/agents.module.ts';
import { CustomFilesModule } from '../custom-files/custom-files.module.ts';
import { EnvironmentModule } from '../environment/environment.module.ts';
import { LogsModule } from '../logs/logs.module.ts';
import { Projections } from '../../eventsourcing/projections/projections.ts';
import { SandboxContainersModule } from '../../sandboxes/sandbox-containers.module.ts';
import { TemplatesModule } from '../templates/templates.module.ts';
import { BuildLogResponses } from './build-log-responses.service.ts';
import { AgentRecords } from './records/agent-records.ts';
import { AccountHasImageHandler, accountImagesProjection } from './images/account-images.projection.ts';
import { ContainerContents } from './containers/container-contents.service.ts';
import { ContainerSpecs } from './containers/container-specs.service.ts';
import { AgentContainers } from './containers/agent-containers.service.ts';
import { AGENT_KIND, agentKind } from './containers/agent-kind.ts';
import { AgentRows } from './containers/agent-rows.service.ts';
import { AgentSteps } from './containers/agent-steps.service.ts';
import { DeploymentImages } from './images/deployment-images.service.ts';
import { ImageAttempts } from './images/image-attempts.service.ts';
import { ImageClaims } from './images/image-claims.service.ts';
import { ImageReferences } from './images/image-references.service.ts';
import { ImageSources } from './images/image-sources.service.ts';
import { ImagesSaga } from './images/images.saga.ts';
import { ImageNeeds } from './images/image-needs.service.ts';
import { ImageSweep } from './images/image-sweep.service.ts';
import { ImageSweepRecords, LastImageSweepHandler } from './images/image-sweep-records.service.ts';
import { Repositories } from './images/repositories.service.ts';
import { RepositorySources } from './images/repository-sources.service.ts';
import { SourceReader } from './images/source-reader.service.ts';
import { DeploymentSources } from './sources/deployment-sources.service.ts';
import { CancelDeploymentHandler, DeployAgentHandler, RollBackAgentHandler } from './deployments.handlers.ts';
import {
  deploymentsProjection,
  FindDeploymentHandler,
  FindEarlierSuccessHandler,
  ListDeploymentsHandler,
} from './deployments.projection.ts';
import { DeploymentsSaga } from './deployments.saga.ts';
import { DeploymentRecordsController } from './deployment-records.controller.ts';
import { DeploymentsController } from './deployments.controller.ts';
import { NeededImagesHandler } from './needed-images.handlers.ts';

@Module({
  imports: [AgentsModule, CustomFilesModule, EnvironmentModule, LogsModule, SandboxContainersModule, TemplatesModule],
  controllers: [DeploymentsController, DeploymentRecordsController],
  providers: [
    AgentContainers,
    AgentRows,
    AgentSteps,
    { provide: AGENT_KIND, useFactory: agentKind, inject: [AgentRecords, AgentContainers, AgentRows, AgentSteps] },
    AgentRecords,
    BuildLogResponses,
    ContainerContents,
    ContainerSpecs,
    DeploymentImages,
    DeploymentsSaga,
    DeploymentSources,
    ImageAttempts,
    ImageClaims,
    ImageNeeds,
    ImageReferences,
    ImageSources,
    ImagesSaga,
    ImageSweep,
    ImageSweepRecords,
    Repositories,
    RepositorySources,
    { provide: SourceReader, useFactory: () => SourceReader.open() },
    AccountHasImageHandler,
    CancelDeploymentHandler,
    DeployAgentHandler,
    FindDeploymentHandler,
    FindEarlierSuccessHandler,
    LastImageSweepHandler,
    ListDeploymentsHandler,
    NeededImagesHandler,
    RollBackAgentHandler,
  ],
})
export class DeploymentsModule {
  constructor(projections: Projections) {
    projections.register(accountImagesProjection);
    projections.register(deploymentsProjection);
  }
}
