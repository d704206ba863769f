export { deploymentSource } from './deployment-source.decider.ts';
export { deploymentEvents } from './deployment.events.ts';
export { DeploymentRow } from './deployment.entity.ts';
export { DeploymentsModule } from './deployments.module.ts';
