import { Injectable } from '@nestjs/common';

import type { Agent } from '../../agents/index.ts';
import { ReleaseRuns, type RunningRelease } from '../../agents/services.ts';
import { Config } from '../../../kernel/config/config.ts';
import type { ContainerSpec } from '../../../runtime/container.ts';
import { ContainerContents } from './container-contents.service.ts';
import { containerSpec } from './container-spec.ts';
import { wantedRelease } from './next-step.rules.ts';
import { privateVariables } from './private-variables.ts';

/** Determines how the containers of agents are made and reached. */
@Injectable()
export class ContainerSpecs {
  constructor(
    private readonly runs: ReleaseRuns,
    private readonly contents: ContainerContents,
    private readonly config: Config,
  ) {}

  /** Returns how the agent's candidate or, without one, its release is run. */
  runOf(agent: Agent): RunningRelease {
    return this.runs.of(wantedRelease(agent));
  }

  async specOf(agentId: string, agent: Agent): Promise<ContainerSpec> {
    const release = wantedRelease(agent);
    if (release === null) throw new Error('an agent without a release has no container');
    return containerSpec(agentId, agent, release, this.runs.of(release), await this.contents.variablesOf(agentId), this.config);
  }

  /** Returns a line for each variable with a private address that the agent's next container may not reach on an engine. */
  async privateVariables(agentId: string, { deployment, candidate }: Agent): Promise<string[]> {
    const { agentEgress, agentEgressPrivate } = this.config;
    if (agentEgress !== 'internet') return [];
    const { template } = this.runs.of(candidate ?? { templateId: deployment?.templateId ?? null, run: null });
    return privateVariables({ ...template?.env, ...(await this.contents.variablesOf(agentId)) }, agentEgressPrivate);
  }
}
