import { QueryHandler, type IQueryHandler } from '@nestjs/cqrs';
import { Not } from 'typeorm';

import type { AgentEvent } from '../agents/index.ts';
import { Database } from '../../postgres/database/database.ts';
import { entityOf } from '../../postgres/database/entities.ts';
import type { WrittenRow } from '../../postgres/database/table.ts';
import { idOf, type StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import { type Projection, tableOf } from '../../eventsourcing/projections/projection.ts';
import { FindDeployment, FindEarlierSuccess, ListDeployments } from './deployments.queries.ts';
import { type DeploymentRow, deploymentsTable } from './deployments.table.ts';

const types = [
  'DeploymentRequested',
  'DeploymentStarted',
  'ImageResolved',
  'ContainerCreated',
  'DeploymentSucceeded',
  'DeploymentFailed',
  'DeploymentCanceled',
] as const;
type DeploymentRecord = Extract<AgentEvent, { type: (typeof types)[number] }>;

type WrittenDeployment = WrittenRow<typeof deploymentsTable>;

export const deploymentsProjection: Projection<typeof deploymentsTable> = {
  name: 'deployments',
  version: 3,
  filter: { eventClass: 'core', categories: ['agent'], types },
  table: deploymentsTable,
  keys: (event) => [(event.data as { deployment_id: string }).deployment_id],
  project(stored, rows) {
    const event = stored as unknown as DeploymentRecord;
    const row = rows.get(event.data.deployment_id);
    if (event.type === 'DeploymentRequested') rows.set(event.data.deployment_id, requested(stored, event.data));
    else if (row !== undefined) rows.set(row.id, { ...row, ...changes(event, stored.at) });
  },
};

function requested(stored: StoredEvent, data: Extract<AgentEvent, { type: 'DeploymentRequested' }>['data']): WrittenDeployment {
  const { actor } = stored.metadata;
  return {
    id: data.deployment_id,
    agent_id: idOf(stored.stream),
    status: 'queued',
    source: data.source,
    branch: data.branch,
    commit_sha: null,
    image_name: data.image_name,
    image: null,
    command: null,
    run: {},
    start_timeout_seconds: null,
    repo_url: data.repo_url,
    template_id: data.template_id,
    message: null,
    triggered_by: `${actor.kind} ${actor.name}`,
    started_at: stored.at,
    completed_at: null,
  };
}

function changes(event: Exclude<DeploymentRecord, { type: 'DeploymentRequested' }>, at: string): Partial<WrittenDeployment> {
  switch (event.type) {
    case 'DeploymentStarted':
      return { status: 'building' };
    case 'ImageResolved':
      return {
        image: event.data.image,
        command: event.data.command,
        image_name: event.data.image_name,
        commit_sha: event.data.commit_sha,
        run: event.data.run ?? {},
        start_timeout_seconds: event.data.start_timeout_seconds ?? null,
        ...(event.data.framework === undefined ? {} : { template_id: event.data.framework }),
      };
    case 'ContainerCreated':
      return { status: 'starting' };
    case 'DeploymentSucceeded':
      return { status: 'success', completed_at: at, message: 'The agent is active.' };
    case 'DeploymentFailed':
      return { status: 'failed', completed_at: at, message: event.data.reason };
    case 'DeploymentCanceled':
      return { status: 'canceled', completed_at: at, message: event.data.reason };
  }
}

const deploymentRows = entityOf(tableOf(deploymentsProjection), deploymentsTable);

@QueryHandler(ListDeployments)
export class ListDeploymentsHandler implements IQueryHandler<ListDeployments> {
  constructor(private readonly database: Database) {}

  execute({ agentId, limit }: ListDeployments): Promise<DeploymentRow[]> {
    return this.database.dataSource
      .getRepository(deploymentRows)
      .find({ where: { agent_id: agentId }, order: { started_at: 'DESC', id: 'DESC' }, take: limit });
  }
}

@QueryHandler(FindDeployment)
export class FindDeploymentHandler implements IQueryHandler<FindDeployment> {
  constructor(private readonly database: Database) {}

  execute({ agentId, deploymentId }: FindDeployment): Promise<DeploymentRow | null> {
    return this.database.dataSource.getRepository(deploymentRows).findOneBy({ agent_id: agentId, id: deploymentId });
  }
}

@QueryHandler(FindEarlierSuccess)
export class FindEarlierSuccessHandler implements IQueryHandler<FindEarlierSuccess> {
  constructor(private readonly database: Database) {}

  execute({ agentId, latestId }: FindEarlierSuccess): Promise<DeploymentRow | null> {
    return this.database.dataSource
      .getRepository(deploymentRows)
      .findOne({ where: { agent_id: agentId, status: 'success', id: Not(latestId) }, order: { started_at: 'DESC', id: 'DESC' } });
  }
}
