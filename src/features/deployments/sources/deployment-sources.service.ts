import { Injectable } from '@nestjs/common';

import { type AgentSettings, type DeploymentRequest } from '../../agents/index.ts';
import { AllowLists, SourceHosts } from '../../agents/services.ts';
import { Templates } from '../../templates/index.ts';
import { deploymentSource, type EarlierDeployment, earlierSource } from './deployment-sources.rules.ts';
import type { SourceOverrides } from './source-overrides.ts';

/** Determines the source of a deployment before anything is stored. */
@Injectable()
export class DeploymentSources {
  constructor(
    private readonly templates: Templates,
    private readonly hosts: SourceHosts,
    private readonly allowLists: AllowLists,
  ) {}

  /**
   * Returns the source. Throws ProblemError `invalid_request`, also if the image or the repository would come from a private address or the
   * runtime can't limit the agent to its list of names, and `template_not_found`.
   */
  async resolve(accountId: string, settings: AgentSettings, overrides: SourceOverrides): Promise<Omit<DeploymentRequest, 'deploymentId'>> {
    this.allowLists.refuseUnsupported(settings.egress);
    const source = deploymentSource(settings, overrides, (id) => this.templates.get(id) !== undefined);
    const { spelling = 'snake_case' } = overrides;
    await this.hosts.refuseImage(source.imageName, accountId, spelling);
    await this.hosts.refuseRepository(source.repoUrl, accountId, spelling);
    return source;
  }

  /** Returns the source of a rollback to an earlier successful deployment. Throws ProblemError `invalid_request` as `resolve` does. */
  earlier(settings: AgentSettings, earlier: EarlierDeployment): Omit<DeploymentRequest, 'deploymentId'> {
    this.allowLists.refuseUnsupported(settings.egress);
    return earlierSource(earlier);
  }
}
