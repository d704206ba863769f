import { IsIn, IsOptional, IsString, IsUUID } from 'class-validator';

import { branchRule, Given, imageNameRule, repoUrlRule, Text } from '../agents/index.ts';
import { IntegerQuery, MaxLength } from '../../http/requests/validation.ts';
import type { DeploymentRow } from './deployments.table.ts';

/** Each field overrides a setting of the agent for this deployment. */
export class DeployDto {
  @Given()
  @Text(imageNameRule)
  image_name?: string;

  @Given()
  @Text(repoUrlRule)
  repo_url?: string;

  @Given()
  @Text(branchRule)
  branch?: string;
}

export class RollBackDto {
  /** The id of an earlier successful deployment; if absent, the last one before the latest deployment. */
  @Given()
  @IsUUID()
  deployment_id?: string;
}

export class RestDeployDto {
  @IsUUID()
  agentId: string;

  /** The kind of source that the deployment uses. Fields of the source that the body omits are taken from the agent's settings. */
  @IsIn(['github', 'docker', 'template'])
  source: 'github' | 'docker' | 'template';

  @Given()
  @Text(imageNameRule)
  imageName?: string;

  @Given()
  @Text(repoUrlRule)
  repoUrl?: string;

  @Given()
  @Text(branchRule)
  branch?: string;

  @IsOptional()
  @IsString()
  @MaxLength(63)
  templateId?: string;
}

export interface DeployAnswer {
  agent_id: string;
  deployment_id: string;
  status: string;
  message: string;
}

export interface RestDeployAnswer {
  agentId: string;
  deploymentId: string;
  status: string;
  message: string;
}

export class DeploymentsQueryDto {
  /** The largest number of deployments to return; default 10. */
  @IsOptional()
  @IntegerQuery(1, 50)
  limit?: number;
}

/** The fields that every view of a deployment has. */
export class DeploymentRecordDto {
  id: string;
  agent_id: string;
  status: string;
  source: string;
  branch: string | null;
  commit_sha: string | null;
  image_name: string | null;
  message: string | null;
  triggered_by: string;
  started_at: string;
  completed_at: string | null;
}

export interface DeploymentDto extends DeploymentRecordDto {
  build_log: string;
}

export function toDeploymentRecordDto(row: DeploymentRow): DeploymentRecordDto {
  return {
    id: row.id,
    agent_id: row.agent_id,
    status: row.status,
    source: row.source,
    branch: row.branch,
    commit_sha: row.commit_sha,
    image_name: row.image_name,
    message: row.message,
    triggered_by: row.triggered_by,
    started_at: row.started_at.toISOString(),
    completed_at: row.completed_at?.toISOString() ?? null,
  };
}

export function toDeploymentDto(row: DeploymentRow, build_log: string): DeploymentDto {
  return Object.assign(toDeploymentRecordDto(row), { build_log });
}
