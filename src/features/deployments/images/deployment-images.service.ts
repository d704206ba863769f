import { Injectable, Logger } from '@nestjs/common';

import type { Agent, AgentRecord, Deployment } from '../../agents/index.ts';
import { retry } from '../../../kernel/async/retry.ts';
import { RepositoryRefused } from '../../../builds/git/repository-refused.ts';
import { ContainerRuntime } from '../../../runtime/runtime.ts';
import { ImageLost, RuntimeRefused } from '../../../runtime/runtime.errors.ts';
import type { BuildLog } from '../records/build-log.ts';
import { ImageAttempts } from './image-attempts.service.ts';
import { ImageClaims } from './image-claims.service.ts';
import { ImageSources, type Image } from './image-sources.service.ts';

/** The attempts to provide an image that is removed each time before it is claimed. */
const RESOLVING = { firstMs: 50, lastMs: 1_000, attempts: 5 };

/** Provides the image of a deployment: pulls it, builds it, or uses it from the engine if the account may use it. */
@Injectable()
export class DeploymentImages {
  private readonly logger = new Logger('Deployments');

  constructor(
    private readonly runtime: ContainerRuntime,
    private readonly sources: ImageSources,
    private readonly claims: ImageClaims,
    private readonly attempts: ImageAttempts,
  ) {}

  /** Returns what the engine has to do for the deployment's image. */
  workFor({ deployment }: Agent): 'build' | 'pull' {
    return deployment?.imageName == null && deployment?.earlier == null ? 'build' : 'pull';
  }

  /** Returns the record of the resolved image or of the failure. Throws if the signal aborts or the engine is unavailable. */
  async resolve(agentId: string, agent: Agent, log: BuildLog, signal: AbortSignal): Promise<AgentRecord> {
    const { deployment } = agent;
    if (deployment === null) throw new Error('an agent that deploys has a deployment');
    try {
      const {
        image,
        name,
        command,
        commitSha,
        framework = null,
        releaseCommand = null,
      } = await this.attempts.run(deployment.id, () => this.claimImage(agentId, agent, deployment, log, signal));
      const startTimeoutSeconds = this.sources.template(framework ?? deployment.templateId)?.startTimeoutSeconds ?? null;
      const deploymentId = deployment.id;
      const found = { image, imageName: name, command, commitSha, framework, startTimeoutSeconds, releaseCommand };
      return { type: 'RecordImage', deploymentId, ...found };
    } catch (error) {
      const isRefused = error instanceof RuntimeRefused || error instanceof RepositoryRefused;
      if (!isRefused || signal.aborted) throw error;
      if (error.cause instanceof Error) this.logger.warn(`${error.message} The cause: ${error.cause.message}`);
      return { type: 'RecordDeploymentFailure', deploymentId: deployment.id, kind: 'deployment', reason: log.redacted(error.message) };
    }
  }

  /** Returns the deployment's image after claiming it, so that it is not removed as unused. */
  private async claimImage(agentId: string, agent: Agent, deployment: Deployment, log: BuildLog, signal: AbortSignal): Promise<Image> {
    const claim = (image: string) => this.claims.claim({ deployment_id: deployment.id, agent_id: agentId }, image);
    const { earlier } = deployment;
    const claimed = async (): Promise<Image> => {
      if (earlier !== null) {
        // A known image is claimed before it is looked up, so it need not be checked again.
        await claim(earlier.image);
        return { ...(await this.sources.bringBack(earlier, agent.accountId, log, signal)), commitSha: earlier.commit_sha };
      }
      const found = await this.sources.imageOf(agentId, agent, deployment, log, signal);
      await claim(found.image);
      // It may have been removed before the claim.
      if (!(await this.runtime.images.has(found.image))) throw new ImageLost(found.name);
      return found;
    };
    return retry(claimed, {
      ...RESOLVING,
      signal,
      mayPass: (error) => error instanceof ImageLost,
      onRetry: () => log.line('The engine has lost the image meanwhile, so it is made available again'),
    });
  }
}
