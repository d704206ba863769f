import { IsIn, IsOptional, IsString, IsUUID, MaxLength } from 'class-validator';

import { branchRule, Given, imageNameRule, repoUrlRule, Text } from '../agents/index.ts';
import { IntegerQuery } from '../platform/http/validation.ts';

/** Each overrides what the agent was provisioned with, for this deployment. */
export class DeployBody {
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

export class RestDeployBody {
  @IsUUID()
  agentId: string;

  /** What it is made from. */
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

export class DeploymentsQuery {
  /** Records, 10 unless told. */
  @IsOptional()
  @IntegerQuery(1, 50)
  limit?: number;
}

export interface DeploymentView {
  id: string;
  agent_id: string;
  status: string;
  source: string;
  branch: string | null;
  commit_sha: string | null;
  image_name: string | null;
  build_log: string;
  message: string | null;
  triggered_by: string;
  started_at: string;
  completed_at: string | null;
}
