export { DeploymentSources } from './sources/deployment-sources.service.ts';
export { DeploymentRecordDto, toDeploymentRecordDto } from './deployments.dto.ts';
export { deploymentEvents } from './deployments.events.ts';
export { deploymentsProjection } from './deployments.projection.ts';
