import { IsBoolean, IsIn, IsOptional } from 'class-validator';

import { AgentSettingsDto, externalIdRule, Given, type ImageChoice, RestAgentSettingsDto, saidRunSettings, Text } from '../agents/index.ts';
import { snakeCased } from '../../kernel/text/spelling.ts';
import { VariablesField, type VariableInput } from './variable-inputs.ts';
import type { ProvisionRequest } from './provision-request.ts';

const images: ImageChoice[] = ['openclaw', 'crewai', 'langgraph', 'docker', 'custom', 'auto'];

const templateIdRule = (id: string) => (/^[\x21-\x7e]{1,100}$/.test(id) ? null : 'must be the id of a template');

/** The request to make an agent on the Provisioning API. */
export class ProvisionAgentDto extends AgentSettingsDto {
  /** The source of the agent; `auto` means an image if `image_name` is present. */
  @Given()
  @IsIn(images)
  image?: ImageChoice;

  /** The value false means that the agent is deployed later, by a separate call. */
  @Given()
  @IsBoolean()
  auto_deploy?: boolean;

  @VariablesField()
  env_vars?: Record<string, VariableInput>;

  /** The caller's own id for the agent. A repeated request with the same id returns the same agent. */
  @IsOptional()
  @Text(externalIdRule)
  external_id?: string | null;
}

export function provisionRequest(body: ProvisionAgentDto): ProvisionRequest {
  const { name, description, image, branch, serverless, egress } = body;
  const { image_name: imageName, repo_url: repoUrl, external_id: externalId, idle_ttl_seconds: idleTtlSeconds } = body;
  const { auto_deploy: autoDeploy, env_vars: variables, tokenless_webhooks: tokenlessWebhooks } = body;
  const agent = { name, description, image, branch, serverless, egress, imageName, repoUrl, externalId, idleTtlSeconds };
  return { ...agent, tokenlessWebhooks, autoDeploy, variables, run: saidRunSettings(body) };
}

/** The request to create an agent on the REST API, which is created from a template, an image or a repository and deployed immediately. */
export class CreateAgentDto extends RestAgentSettingsDto {
  /** The id of the template, as in the list of templates. It is used if neither `repoUrl` nor `imageName` is given. */
  @Given()
  @Text(templateIdRule, { nullable: true })
  templateId?: string | null;

  @VariablesField()
  envVars?: Record<string, VariableInput>;

  /** The caller's own id for the agent. A repeated request with the same id returns the same agent. */
  @IsOptional()
  @Text(externalIdRule)
  externalId?: string | null;
}

export function createRequest(body: CreateAgentDto): ProvisionRequest {
  const { name, description, branch, serverless, egress, imageName, repoUrl, templateId, externalId } = body;
  const { idleTtlSeconds, tokenlessWebhooks, envVars: variables } = body;
  const agent = { name, description, branch, serverless, egress, imageName, repoUrl, templateId, externalId, idleTtlSeconds };
  return { ...agent, tokenlessWebhooks, variables, run: saidRunSettings(snakeCased(body)), spelling: 'camelCase' };
}
