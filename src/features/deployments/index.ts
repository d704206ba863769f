export { LastImageSweep } from './images/image-sweep.queries.ts';
export { DeploymentSources } from './sources/deployment-sources.service.ts';
export { DeploymentRecordDto, toDeploymentRecordDto } from './deployments.dto.ts';
export { deploymentEvents } from './deployments.events.ts';
export { deploymentsProjection } from './deployments.projection.ts';
