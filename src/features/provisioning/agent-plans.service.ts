import { Injectable } from '@nestjs/common';
import { v5 as uuidv5, v7 as uuidv7 } from 'uuid';

import { transitionDeadlines, type AgentSettings } from '../agents/index.ts';
import { RunSettingBounds } from '../agents/services.ts';
import { DeploymentSources } from '../deployments/index.ts';
import { Config } from '../../kernel/config/config.ts';
import { spelled } from '../../kernel/text/spelling.ts';
import { AccountSecrets } from '../secrets/services.ts';
import type { ProvisionRequest } from './provision-request.ts';
import type { Provision } from './provisioning.commands.ts';
import type { MakeAgent } from './whole-agent.ts';

/** Creates the command for a new agent from a request. It refuses what could never be deployed, before anything is stored. */
@Injectable()
export class AgentPlans {
  constructor(
    private readonly sources: DeploymentSources,
    private readonly secrets: AccountSecrets,
    private readonly bounds: RunSettingBounds,
    private readonly config: Config,
  ) {}

  /** Throws `invalid_request`, `template_not_found`, `secret_not_found`. */
  async make({ accountId, request, seed }: Provision): Promise<MakeAgent> {
    const settings = settingsOf(request);
    const { spelling = 'snake_case' } = request;
    this.bounds.refuseBeyond(settings, spelling);
    // The source is checked even without a deployment, so that an agent that could never be deployed is refused immediately.
    const source = await this.sources.resolve(accountId, settings, { spelling });
    const variables = request.variables ?? {};
    const linked = Object.values(variables).flatMap((given) => (typeof given === 'string' ? [] : [given.secret]));
    await this.secrets.refuseUnknown(accountId, linked, spelled('env_vars', spelling));
    const deploymentId = seed === null ? uuidv7() : uuidv5('deployment', seed);
    return {
      type: 'MakeAgent',
      accountId,
      externalId: request.externalId ?? null,
      settings,
      variables,
      deployment: (request.autoDeploy ?? true) ? { deploymentId, ...source } : null,
      deploymentDeadline: transitionDeadlines(this.config).deploy,
    };
  }
}

function settingsOf(request: ProvisionRequest): AgentSettings {
  return {
    name: request.name,
    description: request.description ?? null,
    image: request.image ?? 'auto',
    image_name: request.imageName ?? null,
    repo_url: request.repoUrl ?? null,
    branch: request.branch ?? 'main',
    template_id: request.templateId ?? null,
    serverless: request.serverless ?? true,
    idle_ttl_seconds: request.idleTtlSeconds ?? 300,
    ...(request.egress == null ? {} : { egress: request.egress }),
    ...(request.tokenlessWebhooks === undefined ? {} : { tokenless_webhooks: request.tokenlessWebhooks }),
    ...request.run,
  };
}
