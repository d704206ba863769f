import { QueryHandler, type IQueryHandler } from '@nestjs/cqrs';

import type { AgentEvent } from '../agents/index.ts';
import { Database } from '../platform/database/database.ts';
import { idOf, type StoredEvent } from '../platform/event-store/event-store.ts';
import type { Projection } from '../platform/projections/projection.ts';
import { DeploymentRow } from './deployments.entity.ts';
import { FindDeployment, ListDeployments } from './deployments.queries.ts';

export interface DeploymentColumns {
  id: string;
  agent_id: string;
  status: string;
  source: string;
  branch: string | null;
  commit_sha: string | null;
  image_name: string | null;
  /** The image, pinned. */
  image: string | null;
  message: string | null;
  triggered_by: string;
  started_at: string;
  completed_at: string | null;
}

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

export const deploymentsProjection: Projection<DeploymentColumns> = {
  name: 'deployments',
  version: 1,
  filter: { eventClass: 'core', categories: ['agent'], types },
  table: {
    name: 'deployments',
    key: 'id',
    columns: {
      id: 'text collate "C" not null',
      agent_id: 'text collate "C" not null',
      status: 'text not null',
      source: 'text not null',
      branch: 'text',
      commit_sha: 'text',
      image_name: 'text',
      image: 'text',
      message: 'text',
      triggered_by: 'text not null',
      started_at: 'timestamptz(3) not null',
      completed_at: 'timestamptz(3)',
    },
    indexes: { by_agent: '(agent_id, started_at desc, id desc)' },
  },
  keys: (event) => [(event.data as { deployment_id: string }).deployment_id],
  project(stored, rows) {
    const event = stored as unknown as DeploymentRecord;
    const row = rows.get(event.data.deployment_id);
    if (event.type === 'DeploymentRequested') rows.set(event.data.deployment_id, requested(stored, event.data));
    else if (row !== undefined) rows.set(row.id, { ...row, ...changes(event, stored.at) });
  },
};

function requested(stored: StoredEvent, data: Extract<AgentEvent, { type: 'DeploymentRequested' }>['data']): DeploymentColumns {
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
    message: null,
    triggered_by: `${actor.kind} ${actor.name}`,
    started_at: stored.at,
    completed_at: null,
  };
}

function changes(event: Exclude<DeploymentRecord, { type: 'DeploymentRequested' }>, at: string): Partial<DeploymentColumns> {
  switch (event.type) {
    case 'DeploymentStarted':
      return { status: 'building' };
    case 'ImageResolved':
      return { image: event.data.image, image_name: event.data.image_name, commit_sha: event.data.commit_sha };
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

@QueryHandler(ListDeployments)
export class ListDeploymentsHandler implements IQueryHandler<ListDeployments> {
  constructor(private readonly database: Database) {}

  execute({ agentId, limit }: ListDeployments): Promise<DeploymentRow[]> {
    return this.database.dataSource
      .getRepository(DeploymentRow)
      .find({ where: { agent_id: agentId }, order: { started_at: 'DESC', id: 'DESC' }, take: limit });
  }
}

@QueryHandler(FindDeployment)
export class FindDeploymentHandler implements IQueryHandler<FindDeployment> {
  constructor(private readonly database: Database) {}

  execute({ agentId, deploymentId }: FindDeployment): Promise<DeploymentRow | null> {
    return this.database.dataSource.getRepository(DeploymentRow).findOneBy({ agent_id: agentId, id: deploymentId });
  }
}
