import { Injectable, Logger } from '@nestjs/common';

import { type Agent, type AgentRecord, type Deployment, type EarlierImage } from '../../agents/index.ts';
import { retry } from '../../../kernel/async/retry.ts';
import { RepositoryRefused } from '../../../builds/git/repository-refused.ts';
import { parseImageReference } from '../../../kernel/network/image-reference.ts';
import { ContainerRuntime } from '../../../runtime/runtime.ts';
import type { ImageSource, ResolvedImage } from '../../../runtime/image-source.ts';
import { ImageGone, ImageLost, RuntimeRefused } from '../../../runtime/runtime.errors.ts';
import { Templates, type Template } from '../../templates/index.ts';
import type { BuildLog } from '../records/build-log.ts';
import { ImageClaims } from './image-claims.service.ts';
import { ImageReferences } from './image-references.service.ts';
import { Repositories } from './repositories.service.ts';
import { templateDockerfile } from './template-dockerfile.ts';
import { templateProject } from './template-project.ts';

/** The attempts to make an image available that is removed each time before it is claimed. */
const RESOLVING = { firstMs: 50, lastMs: 1_000, attempts: 5 };

type Image = ResolvedImage & { commitSha: string | null; framework?: string | null };

/** Provides the image of a deployment: pulls it, builds it, or finds it on the engine if the account may use it. */
@Injectable()
export class DeploymentImages {
  private readonly logger = new Logger('Deployments');

  constructor(
    private readonly runtime: ContainerRuntime,
    private readonly templates: Templates,
    private readonly references: ImageReferences,
    private readonly repositories: Repositories,
    private readonly claims: ImageClaims,
  ) {}

  template(templateId: string | null | undefined): Template | undefined {
    return templateId ? this.templates.get(templateId) : undefined;
  }

  /** Returns the kind of work that the engine does for the deployment's image. */
  workFor({ deployment }: Agent): 'build' | 'pull' {
    return deployment?.imageName == null && deployment?.earlier == null ? 'build' : 'pull';
  }

  /** Returns the record of the pinned image or of the failure. Throws if the signal aborts or the engine is unavailable. */
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
      } = await this.claims.attempts.run(deployment.id, () => this.claimedImage(agentId, agent, deployment, log, signal));
      const startTimeoutSeconds = this.template(framework ?? deployment.templateId)?.startTimeoutSeconds ?? null;
      const deploymentId = deployment.id;
      return { type: 'RecordImage', deploymentId, image, imageName: name, command, commitSha, framework, startTimeoutSeconds };
    } catch (error) {
      const isRefused = error instanceof RuntimeRefused || error instanceof RepositoryRefused;
      if (!isRefused || signal.aborted) throw error;
      if (error.cause instanceof Error) this.logger.warn(`${error.message} The cause: ${error.cause.message}`);
      return { type: 'RecordDeploymentFailure', deploymentId: deployment.id, kind: 'deployment', reason: log.redacted(error.message) };
    }
  }

  /** Returns the deployment's image after claiming it, so that nobody removes it as one that no agent needs. */
  private async claimedImage(agentId: string, agent: Agent, deployment: Deployment, log: BuildLog, signal: AbortSignal): Promise<Image> {
    const claim = (image: string) => this.claims.claim({ deployment_id: deployment.id, agent_id: agentId }, image);
    const { earlier } = deployment;
    const claimed = async (): Promise<Image> => {
      if (earlier !== null) {
        // It is claimed before anybody looks for it, so that it needs no second look.
        await claim(earlier.image);
        return { ...(await this.bringBack(earlier, agent.accountId, log, signal)), commitSha: earlier.commit_sha };
      }
      const found = await this.imageOf(agent, deployment, log, signal);
      await claim(found.image);
      // It may have been removed before it was claimed.
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

  private async imageOf(agent: Agent, deployment: Deployment, log: BuildLog, signal: AbortSignal): Promise<Image> {
    const ensure = (source: ImageSource) => this.runtime.ensureImage(source, log.line, signal);
    if (deployment.repoUrl !== null) return this.repositories.build(agent, deployment, log, signal, ensure);
    return { ...(await ensure(await this.sourceOf(deployment, agent.accountId, log))), commitSha: null };
  }

  /** Pulls a pinned image anew. Throws `gone` if the pin has no name that a registry could know. */
  async pullAgain(gone: ImageGone, accountId: string, log: (line: string) => void, signal: AbortSignal): Promise<void> {
    if (parseImageReference(gone.image)?.digest == null) throw gone;
    await this.runtime.ensureImage(this.references.sourceFor(gone.image, accountId), log, signal);
  }

  /** Returns the image of an earlier deployment as it was. One that the engine does not have any more is pulled again if a registry has it. */
  private async bringBack(earlier: EarlierImage, accountId: string, log: BuildLog, signal: AbortSignal): Promise<ResolvedImage> {
    const { image, image_name: name, command } = earlier;
    try {
      return await this.runtime.ensureImage({ kind: 'earlier', earlier: { image, name, command } }, log.line, signal);
    } catch (error) {
      if (!(error instanceof ImageGone)) throw error;
      await this.pullAgain(error, accountId, log.line, signal);
      return { image, name, command };
    }
  }

  private async sourceOf({ imageName, templateId }: Deployment, accountId: string, log: BuildLog): Promise<ImageSource> {
    if (imageName !== null) return this.references.sourceFor(imageName, accountId);
    const template = this.template(templateId);
    if (template === undefined) throw new RuntimeRefused(`The template ${templateId ?? ''} is not there any more.`);
    const { source, port } = template;
    if (source.kind === 'dockerfile') return templateDockerfile(source, accountId, this.repositories.builder);
    return source.kind === 'project' ? templateProject(source, port, this.repositories.buildSettings, log) : source;
  }
}
