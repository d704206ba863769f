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

/** Returns the newest successful deployment of the agent that is not its latest one, or null. */
export class FindEarlierSuccess extends Query<DeploymentRow | null> {
  constructor(
    readonly agentId: string,
    /** The id of the agent's latest deployment, however that ended. */
    readonly latestId: string,
  ) {
    super();
  }
}
