export { DeploymentSources } from './deployment-sources.service.ts';
export { DeploymentRecordDto, toDeploymentRecordDto } from './deployment.dto.ts';
export { deploymentEvents } from './deployment.events.ts';
export { DeploymentRow } from './deployment.entity.ts';
export { deploymentsProjection } from './deployment.projection.ts';
