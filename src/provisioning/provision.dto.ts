import { IsBoolean, IsIn, IsOptional } from 'class-validator';

import {
  branchRule,
  checked,
  descriptionRule,
  externalIdRule,
  Given,
  IdleTtl,
  imageNameRule,
  nameRule,
  repoUrlRule,
  Text,
  type ImageChoice,
} from '../agents/index.ts';
import { keyProblem, valueProblem, VARIABLES_MAX } from '../environment/index.ts';
import type { ProvisionRequest } from './provision-request.ts';

const images: ImageChoice[] = ['openclaw', 'crewai', 'langgraph', 'docker', 'custom', 'auto'];

/** Bytes of all variables together, as JSON: what makes an agent is stored at once. */
const VARIABLES_BYTES_MAX = 800_000;
/** Bad variables that one message names. */
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

/** What makes an agent on the Provisioning API. */
export class ProvisionBody {
  /** 1 to 63 characters; need not be unique. */
  @Text(nameRule)
  name: string;

  @IsOptional()
  @Text(descriptionRule)
  description?: string | null;

  /** What it is made from; `auto`: an image where image_name is given. */
  @Given()
  @IsIn(images)
  image?: ImageChoice;

  @IsOptional()
  @Text(imageNameRule)
  image_name?: string | null;

  @IsOptional()
  @Text(repoUrlRule)
  repo_url?: string | null;

  @Given()
  @Text(branchRule)
  branch?: string;

  /** False: it is deployed later, by a call of its own. */
  @Given()
  @IsBoolean()
  auto_deploy?: boolean;

  /** Variables, none of them secret. */
  @Given()
  @checked('variables', variablesMessage)
  env_vars?: Record<string, string>;

  /** The caller's own id for the agent: with the same again it is the same agent. */
  @IsOptional()
  @Text(externalIdRule)
  external_id?: string | null;

  /** Whether it sleeps when it is idle. */
  @Given()
  @IsBoolean()
  serverless?: boolean;

  /** Seconds without use after which it sleeps; 0: never, else 30 to 86400. */
  @Given()
  @IdleTtl()
  idle_ttl_seconds?: number;
}

export function provisionRequest(body: ProvisionBody): ProvisionRequest {
  const { name, description, image, branch, serverless } = body;
  const { image_name: imageName, repo_url: repoUrl, external_id: externalId, idle_ttl_seconds: idleTtlSeconds } = body;
  const { auto_deploy: autoDeploy, env_vars: variables } = body;
  return { name, description, image, branch, serverless, imageName, repoUrl, externalId, idleTtlSeconds, autoDeploy, variables };
}

/** What makes an agent on the REST API: a template, deployed at once. */
export class CreateAgentBody {
  /** 1 to 63 characters; need not be unique. */
  @Text(nameRule)
  name: string;

  /** As the list of templates gives it. */
  @Text(templateIdRule)
  templateId: string;

  @IsOptional()
  @Text(descriptionRule)
  description?: string | null;

  /** Variables, none of them secret. */
  @Given()
  @checked('variables', variablesMessage)
  envVars?: Record<string, string>;

  /** The caller's own id for the agent: with the same again it is the same agent. */
  @IsOptional()
  @Text(externalIdRule)
  externalId?: string | null;

  /** Whether it sleeps when it is idle. */
  @Given()
  @IsBoolean()
  serverless?: boolean;

  /** Seconds without use after which it sleeps; 0: never, else 30 to 86400. */
  @Given()
  @IdleTtl()
  idleTtlSeconds?: number;
}

export function createRequest({ envVars, ...rest }: CreateAgentBody): ProvisionRequest {
  return { ...rest, variables: envVars };
}
