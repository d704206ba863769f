import { Injectable, Logger } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';

import { type Agent, type AgentRecord, type Deployment } from '../../agents/index.ts';
import { ImageRegistries } from '../../agents/services.ts';
import { Config } from '../../platform/config/config.ts';
import { canonicalRepository, namesSameImage, parseImageReference } from '../../platform/image-reference.ts';
import { ContainerRuntime, RuntimeRefused, type ImageSource } from '../../platform/runtime/runtime.ts';
import { Templates, type Template } from '../../templates/index.ts';
import { AccountHasImage } from './account-images.queries.ts';
import type { BuildLog } from '../records/build-log.ts';

/** The timeout for resolving the host name of a registry before a pull, in milliseconds. */
const LOOKUP_MS = 20_000;

/** Provides the image of a deployment: pulls it, builds it, or finds it on the engine if the account may use it. */
@Injectable()
export class DeploymentImages {
  private readonly logger = new Logger('Deployments');

  constructor(
    private readonly runtime: ContainerRuntime,
    private readonly templates: Templates,
    private readonly registries: ImageRegistries,
    private readonly queries: QueryBus,
    private readonly config: Config,
  ) {}

  template(templateId: string | null | undefined): Template | undefined {
    return templateId ? this.templates.get(templateId) : undefined;
  }

  /** Returns the kind of work that the engine does for the deployment's image. */
  workFor({ deployment }: Agent): 'build' | 'pull' {
    return deployment?.imageName == null ? 'build' : 'pull';
  }

  /** Returns the record of the pinned image or of the failure. Throws if the signal aborts or the engine is unavailable. */
  async resolve(agent: Agent, log: BuildLog, signal: AbortSignal): Promise<AgentRecord> {
    const { deployment } = agent;
    if (deployment === null) throw new Error('an agent that deploys has a deployment');
    try {
      const source = await this.sourceOf(deployment, agent.accountId);
      const { image, name: imageName, command } = await this.runtime.ensureImage(source, log.line, signal);
      return { type: 'RecordImage', deploymentId: deployment.id, image, imageName, command, commitSha: null };
    } catch (error) {
      if (!(error instanceof RuntimeRefused) || signal.aborted) throw error;
      if (error.cause instanceof Error) this.logger.warn(`${error.message} The engine says: ${error.cause.message}`);
      return { type: 'RecordDeploymentFailure', deploymentId: deployment.id, kind: 'deployment', reason: error.message };
    }
  }

  private async sourceOf({ imageName, templateId }: Deployment, accountId: string): Promise<ImageSource> {
    if (imageName === null) {
      const source = this.template(templateId)?.source;
      if (source === undefined) throw new RuntimeRefused(`The template ${templateId ?? ''} is not there any more.`);
      return source;
    }
    // The registry is checked again, because its name may have moved to a private address since the request.
    switch (await this.registries.placeOf(imageName, accountId, LOOKUP_MS)) {
      case 'private':
        throw new RuntimeRefused(`The registry of ${imageName} has a private address, which the operator has not allowed.`);
      case 'unknown':
        throw new RuntimeRefused(`The registry of ${imageName} was not found.`);
      case 'public':
    }
    const mayUse = async (image: string) => this.isShared(imageName) || this.queries.execute(new AccountHasImage(accountId, image));
    return { kind: 'reference', reference: imageName, mayUse };
  }

  /** Returns true if the operator shares the image. An image that is shared without a tag is shared with all its tags. */
  private isShared(imageName: string): boolean {
    const wanted = parseImageReference(imageName);
    if (wanted === null) return false;
    return this.config.sharedImages.some((name) => {
      const shared = parseImageReference(name);
      if (shared === null) return false;
      if (shared.tag !== null || shared.digest !== null) return namesSameImage(wanted, shared);
      return canonicalRepository(wanted) === canonicalRepository(shared);
    });
  }
}
