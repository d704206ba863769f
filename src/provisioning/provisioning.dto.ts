import { PickType } from '@nestjs/swagger';
import { IsBoolean, IsIn, IsOptional } from 'class-validator';

import { AgentSettingsDto, checked, externalIdRule, Given, IdleTtl, Text, type ImageChoice } from '../agents/index.ts';
import { keyProblem, valueProblem, VARIABLES_MAX } from '../environment/index.ts';
import type { ProvisionRequest } from './provision-request.ts';

const images: ImageChoice[] = ['openclaw', 'crewai', 'langgraph', 'docker', 'custom', 'auto'];

/** The most bytes of all variables together, as JSON, since an agent and its variables are stored in one append. */
const VARIABLES_BYTES_MAX = 800_000;
/** The most bad variables that one message names. */
const NAMED_MAX = 10;

const templateIdRule = (id: string) => (/^[\x21-\x7e]{1,100}$/.test(id) ? null : 'must be the id of a template');

function variablesMessage(value: unknown): string | null {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 'must be an object of strings';
  const entries = Object.entries(value);
  if (entries.length > VARIABLES_MAX) return `must have at most ${VARIABLES_MAX} variables`;
  const bad = entries.flatMap(([key, text]) => {
    const problem = keyProblem(key) ?? (typeof text === 'string' ? valueProblem(text) : 'must be a string');
    return problem === null ? [] : [`${JSON.stringify(key.slice(0, 50))} ${problem}`];
  });
  if (bad.length > 0) return bad.slice(0, NAMED_MAX).join('; ');
  return Buffer.byteLength(JSON.stringify(value)) > VARIABLES_BYTES_MAX ? `must have at most ${VARIABLES_BYTES_MAX} bytes in all` : null;
}

/** The request to make an agent on the Provisioning API. */
export class ProvisionAgentDto extends AgentSettingsDto {
  /** The source of the agent; `auto` means an image if `image_name` is given. */
  @Given()
  @IsIn(images)
  image?: ImageChoice;

  /** The value false means that the agent is deployed later, by a call of its own. */
  @Given()
  @IsBoolean()
  auto_deploy?: boolean;

  /** The agent's variables, none of them secret. */
  @Given()
  @checked('variables', variablesMessage)
  env_vars?: Record<string, string>;

  /** The caller's own id for the agent: a repeated request with the same id gets the same agent. */
  @IsOptional()
  @Text(externalIdRule)
  external_id?: string | null;
}

export function provisionRequest(body: ProvisionAgentDto): ProvisionRequest {
  const { name, description, image, branch, serverless, egress } = body;
  const { image_name: imageName, repo_url: repoUrl, external_id: externalId, idle_ttl_seconds: idleTtlSeconds } = body;
  const { auto_deploy: autoDeploy, env_vars: variables } = body;
  return { name, description, image, branch, serverless, egress, imageName, repoUrl, externalId, idleTtlSeconds, autoDeploy, variables };
}

/** The request to make an agent on the REST API, which is made from a template and deployed at once. */
export class CreateAgentDto extends PickType(AgentSettingsDto, ['name', 'description', 'serverless', 'egress']) {
  /** The id of the template, as the list of templates gives it. */
  @Text(templateIdRule)
  templateId: string;

  /** The agent's variables, none of them secret. */
  @Given()
  @checked('variables', variablesMessage)
  envVars?: Record<string, string>;

  /** The caller's own id for the agent: a repeated request with the same id gets the same agent. */
  @IsOptional()
  @Text(externalIdRule)
  externalId?: string | null;

  /** The time without use, in seconds, after which the agent sleeps: 0 (never) or 30 to 86400. */
  @Given()
  @IdleTtl()
  idleTtlSeconds?: number;
}

export function createRequest({ envVars, ...rest }: CreateAgentDto): ProvisionRequest {
  return { ...rest, variables: envVars };
}
