import { Query } from '@nestjs/cqrs';

import type { DeploymentRow } from './deployments.table.ts';

/** Lists the agent's deployments, newest first. */
export class ListDeployments extends Query<DeploymentRow[]> {
  constructor(
    readonly agentId: string,
    readonly limit: number,
  ) {
    super();
  }
}

/** Returns one of the agent's deployments, or null. */
export class FindDeployment extends Query<DeploymentRow | null> {
  constructor(
    readonly agentId: string,
    readonly deploymentId: string,
  ) {
    super();
  }
}
