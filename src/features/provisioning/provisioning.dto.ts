import { PickType } from '@nestjs/swagger';
import { IsBoolean, IsIn, IsOptional } from 'class-validator';

import { AgentSettingsDto, externalIdRule, Given, IdleTtl, Text, type ImageChoice } from '../agents/index.ts';
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
  return { ...agent, tokenlessWebhooks, autoDeploy, variables };
}

/** The request to create an agent on the REST API, which is created from a template and deployed immediately. */
export class CreateAgentDto extends PickType(AgentSettingsDto, ['name', 'description', 'serverless', 'egress']) {
  /** The id of the template, as in the list of templates. */
  @Text(templateIdRule)
  templateId: string;

  @VariablesField()
  envVars?: Record<string, VariableInput>;

  /** The caller's own id for the agent. A repeated request with the same id returns the same agent. */
  @IsOptional()
  @Text(externalIdRule)
  externalId?: string | null;

  /** The time without use, in seconds, after which the agent sleeps: 0 (never) or 30 to 86400. */
  @Given()
  @IdleTtl()
  idleTtlSeconds?: number;

  /** False if webhooks without the agent's token are refused; default true. */
  @Given()
  @IsBoolean()
  tokenlessWebhooks?: boolean;
}

export function createRequest({ envVars, ...rest }: CreateAgentDto): ProvisionRequest {
  return { ...rest, variables: envVars, variablesField: 'envVars' };
}
