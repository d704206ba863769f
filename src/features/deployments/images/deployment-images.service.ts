import { Injectable, Logger } from '@nestjs/common';

import type { Agent, AgentRecord, Deployment, ReleaseRun } from '../../agents/index.ts';
import { retry } from '../../../kernel/async/retry.ts';
import { RepositoryRefused } from '../../../builds/git/repository-refused.ts';
import type { ResolvedImage } from '../../../runtime/image-source.ts';
import { ContainerRuntime } from '../../../runtime/runtime.ts';
import { ImageLost, RuntimeRefused } from '../../../runtime/runtime.errors.ts';
import type { BuildLog } from '../records/build-log.ts';
import { ImageAttempts } from './image-attempts.service.ts';
import { ImageClaims } from './image-claims.service.ts';
import { ImageSources } from './image-sources.service.ts';
import { releaseRun } from './release-run.rules.ts';

/** The image of a deployment, and how its containers are run. */
interface DeploymentImage extends ResolvedImage {
  commitSha: string | null;
  framework: string | null;
  run: ReleaseRun | null;
  /** The start timeout that was said; null means that of the template. */
  startTimeoutSeconds: number | null;
}

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
      const deploymentId = deployment.id;
      const found = await this.attempts.run(deploymentId, () => this.claimImage(agentId, agent, deployment, log, signal));
      const { image, name: imageName, command, commitSha, framework, run } = found;
      const template = this.sources.template(framework ?? deployment.templateId);
      const startTimeoutSeconds = found.startTimeoutSeconds ?? template?.startTimeoutSeconds ?? null;
      return { type: 'RecordImage', deploymentId, image, imageName, command, commitSha, framework, startTimeoutSeconds, run };
    } catch (error) {
      const isRefused = error instanceof RuntimeRefused || error instanceof RepositoryRefused;
      if (!isRefused || signal.aborted) throw error;
      if (error.cause instanceof Error) this.logger.warn(`${error.message} The cause: ${error.cause.message}`);
      return { type: 'RecordDeploymentFailure', deploymentId: deployment.id, kind: 'deployment', reason: log.redacted(error.message) };
    }
  }

  /** Returns the deployment's image after claiming it, so that it is not removed as unused. */
  private async claimImage(
    agentId: string,
    agent: Agent,
    deployment: Deployment,
    log: BuildLog,
    signal: AbortSignal,
  ): Promise<DeploymentImage> {
    const claim = (image: string) => this.claims.claim({ deployment_id: deployment.id, agent_id: agentId }, image);
    const { earlier } = deployment;
    const claimed = async (): Promise<DeploymentImage> => {
      if (earlier !== null) {
        // A known image is claimed before it is looked up, so it need not be checked again.
        await claim(earlier.image);
        const image = await this.sources.bringBack(earlier, agent.accountId, log, signal);
        const { commit_sha: commitSha, run = null, start_timeout_seconds: startTimeoutSeconds = null } = earlier;
        return { ...image, commitSha, framework: null, run, startTimeoutSeconds };
      }
      const found = await this.sources.imageOf(agentId, agent, deployment, log, signal);
      await claim(found.image);
      // It may have been removed before the claim.
      if (!(await this.runtime.images.has(found.image))) throw new ImageLost(found.name);
      const { said, exposedPort: exposed = null, framework } = found;
      const exposedPort = said.port == null && framework === null && deployment.templateId === null ? exposed : null;
      if (exposedPort !== null) log.line(`Setting port: ${exposedPort}, the one port that the image exposes`);
      return { ...found, run: releaseRun(said, exposedPort), startTimeoutSeconds: said.start_timeout ?? null };
    };
    return retry(claimed, {
      ...RESOLVING,
      signal,
      mayPass: (error) => error instanceof ImageLost,
      onRetry: () => log.line('The engine has lost the image meanwhile, so it is made available again'),
    });
  }
}
