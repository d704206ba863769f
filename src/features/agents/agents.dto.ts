import { IntersectionType, PartialType, PickType } from '@nestjs/swagger';
import { IsBoolean, IsOptional, IsString, MaxLength } from 'class-validator';

import { PageQueryDto } from '../../http/requests/page.dto.ts';
import { IntegerQuery } from '../../http/requests/validation.ts';
import { WAIT_SECONDS_MAX } from '../../http/responses/prefer.ts';
import type { AgentEgress } from '../../kernel/network/allow-list.ts';
import { camelCased } from '../../kernel/text/spelling.ts';
import { agentStatuses, desiredState, type AgentStatus } from './aggregate/agent-state.rules.ts';
import {
  branchRule,
  validatedBy,
  descriptionRule,
  Egress,
  EgressShape,
  OptionalField,
  IdleTtl,
  imageNameRule,
  nameRule,
  repoUrlRule,
  Text,
} from './fields/agent-fields.ts';
import {
  RestRunSettingsDto,
  RestShownRunSettingsDto,
  RunSettingsDto,
  ShownRunSettingsDto,
  shownRunSettings,
} from './fields/run-setting-fields.ts';
import type { AgentView } from './agents.table.ts';

export class ListAgentsQueryDto extends PageQueryDto {
  /** Selects the agent with this external id. */
  @IsOptional()
  @IsString()
  @MaxLength(510)
  external_id?: string;
}

export class WaitQueryDto {
  /** The statuses to wait for, separated by commas. Default: any in which the agent has settled. */
  @IsOptional()
  @validatedBy('statuses', statusesMessage)
  status?: string;

  /** The longest wait in seconds; default 60. */
  @IsOptional()
  @IntegerQuery(0, WAIT_SECONDS_MAX)
  timeout?: number;
}

function statusesMessage(value: unknown): string | null {
  const known: readonly string[] = agentStatuses;
  const fits = typeof value === 'string' && value.length <= 500 && value.split(',').every((status) => known.includes(status.trim()));
  return fits ? null : `must be one or more of ${agentStatuses.join(', ')}, separated by commas`;
}

/** Returns the statuses that a `WaitQueryDto` names; null means any settled one. */
export function statusesOf(query: WaitQueryDto): AgentStatus[] | null {
  return query.status === undefined ? null : (query.status.split(',').map((status) => status.trim()) as AgentStatus[]);
}

/** The fields of an agent that its owner sets at its creation and can change later. */
export class AgentSettingsDto extends RunSettingsDto {
  /** The name of the agent, 1 to 63 characters; it need not be unique. */
  @Text(nameRule)
  name: string;

  @OptionalField()
  @Text(descriptionRule, { nullable: true })
  description?: string | null;

  @OptionalField()
  @Text(imageNameRule, { nullable: true })
  image_name?: string | null;

  @OptionalField()
  @Text(repoUrlRule, { nullable: true })
  repo_url?: string | null;

  @OptionalField()
  @Text(branchRule)
  branch?: string;

  /** True if the agent sleeps when it is idle. */
  @OptionalField()
  @IsBoolean()
  serverless?: boolean;

  /** The time without use, in seconds, after which the agent sleeps: 0 (never) or 30 to 86400. */
  @OptionalField()
  @IdleTtl()
  idle_ttl_seconds?: number;

  /** The agent may reach everything that the operator allows agents to reach (`internet`, the default, or null), nothing (`none`), or the listed names and IPv4 addresses alone (`{"allow": ["api.example.com", "*.example.org", "203.0.113.0/24"]}`). A change takes effect at the next deployment, restart, or start after a stop. */
  @OptionalField()
  @Egress()
  egress?: AgentEgress | null;

  /** The value is false if webhooks without the agent's token are refused; true by default. A change takes effect immediately. */
  @OptionalField()
  @IsBoolean()
  tokenless_webhooks?: boolean;
}

/** The same fields in the spelling of the REST API. */
export class RestAgentSettingsDto extends IntersectionType(
  PickType(AgentSettingsDto, ['name', 'description', 'branch', 'serverless', 'egress']),
  RestRunSettingsDto,
) {
  @OptionalField()
  @Text(imageNameRule, { nullable: true })
  imageName?: string | null;

  @OptionalField()
  @Text(repoUrlRule, { nullable: true })
  repoUrl?: string | null;

  /** The time without use, in seconds, after which the agent sleeps: 0 (never) or 30 to 86400. */
  @OptionalField()
  @IdleTtl()
  idleTtlSeconds?: number;

  /** False if webhooks without the agent's token are refused; default true. A change takes effect immediately. */
  @OptionalField()
  @IsBoolean()
  tokenlessWebhooks?: boolean;
}

/** The settings to change; absent ones keep their values. A change takes effect at the next deployment, a new idle time immediately. */
export class UpdateAgentDto extends PartialType(AgentSettingsDto, { skipNullProperties: false }) {
  /**
   * The value is true if anybody can access the agent's port at its `public_url`, without a credential. A change takes effect immediately.
   */
  @OptionalField()
  @IsBoolean()
  public?: boolean;
}

/** The settings to change, in the spelling of the REST API. */
export class UpdateRestAgentDto extends PartialType(RestAgentSettingsDto, { skipNullProperties: false }) {
  /**
   * The value is true if anybody can access the agent's port at its `publicUrl`, without a credential. A change takes effect immediately.
   */
  @OptionalField()
  @IsBoolean()
  public?: boolean;
}

/** An agent in the Provisioning API. */
export class AgentDto extends ShownRunSettingsDto {
  agent_id: string;
  name: string;
  status: string;
  external_id: string | null;
  description: string | null;
  image: string;
  image_name: string | null;
  repo_url: string | null;
  branch: string;
  template_id: string | null;
  serverless: boolean;
  idle_ttl_seconds: number;
  @EgressShape()
  egress: AgentEgress | null;
  tokenless_webhooks: boolean;
  /** The id of the latest deployment. */
  deployment_id: string | null;
  message: string;
  /** The address at which anybody reaches the agent's port; null if it is not public. */
  public_url: string | null;
  desired_state: string;
  last_active_at: string | null;
  created_at: string;
  updated_at: string;
}

/** An agent in the REST API. */
export class RestAgentDto extends RestShownRunSettingsDto {
  id: string;
  agent_id: string;
  name: string;
  status: string;
  externalId: string | null;
  description: string | null;
  image: string;
  imageName: string | null;
  repoUrl: string | null;
  branch: string;
  templateId: string | null;
  serverless: boolean;
  idleTtlSeconds: number;
  @EgressShape()
  egress: AgentEgress | null;
  tokenlessWebhooks: boolean;
  deploymentId: string | null;
  message: string;
  publicUrl: string | null;
  desiredState: string;
  lastActiveAt: string | null;
  createdAt: string;
  updatedAt: string;
}

export function toAgentDto({ agent_id, state, activity, public_url, created_at, updated_at }: AgentView): AgentDto {
  const { settings, status, externalId, deployment, message } = state;
  return {
    agent_id,
    name: settings.name,
    status,
    external_id: externalId,
    description: settings.description,
    image: settings.image,
    image_name: settings.image_name,
    repo_url: settings.repo_url,
    branch: settings.branch,
    template_id: settings.template_id,
    serverless: settings.serverless,
    idle_ttl_seconds: settings.idle_ttl_seconds,
    egress: settings.egress ?? null,
    tokenless_webhooks: settings.tokenless_webhooks ?? true,
    ...shownRunSettings(settings),
    deployment_id: deployment?.id ?? null,
    message,
    public_url,
    desired_state: desiredState(state),
    last_active_at: activity?.last_active_at.toISOString() ?? null,
    created_at: created_at.toISOString(),
    updated_at: updated_at.toISOString(),
  };
}

export function toRestAgentDto(row: AgentView): RestAgentDto {
  const view = toAgentDto(row);
  return {
    id: view.agent_id,
    agent_id: view.agent_id,
    name: view.name,
    status: view.status,
    externalId: view.external_id,
    description: view.description,
    image: view.image,
    imageName: view.image_name,
    repoUrl: view.repo_url,
    branch: view.branch,
    templateId: view.template_id,
    serverless: view.serverless,
    idleTtlSeconds: view.idle_ttl_seconds,
    egress: view.egress,
    tokenlessWebhooks: view.tokenless_webhooks,
    ...camelCased(shownRunSettings(row.state.settings)),
    deploymentId: view.deployment_id,
    message: view.message,
    publicUrl: view.public_url,
    desiredState: view.desired_state,
    lastActiveAt: view.last_active_at,
    createdAt: view.created_at,
    updatedAt: view.updated_at,
  };
}
