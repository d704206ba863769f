import { Injectable } from '@nestjs/common';

import type { Agent, Deployment, EarlierImage } from '../../agents/index.ts';
import type { RunSettings } from '../../../builds/run-settings/run-settings.ts';
import { originLines, settingsOf } from '../../../builds/run-settings/settings-of-deployment.ts';
import { parseImageReference } from '../../../kernel/network/image-reference.ts';
import type { ImageSource, ResolvedImage } from '../../../runtime/image-source.ts';
import { ImageGone, RuntimeRefused } from '../../../runtime/runtime.errors.ts';
import { planAt } from '../../../runtime/project-plan.ts';
import { ContainerRuntime } from '../../../runtime/runtime.ts';
import { DEFAULT_PORT, Templates, type Template } from '../../templates/index.ts';
import type { BuildLog } from '../records/build-log.ts';
import { ImageReferences } from './image-references.service.ts';
import { Repositories } from './repositories.service.ts';
import { templateDockerfile } from './template-dockerfile.ts';
import { templateProject } from './template-project.ts';

export type Image = ResolvedImage & {
  commitSha: string | null;
  framework: string | null;
  said: RunSettings;
  /** The command that runs before the agent's containers do; null if there is none. */
  releaseCommand: string[] | null;
};

/** Has the engine pull, build or bring back images, by what a deployment is made of. */
@Injectable()
export class ImageSources {
  constructor(
    private readonly runtime: ContainerRuntime,
    private readonly templates: Templates,
    private readonly references: ImageReferences,
    private readonly repositories: Repositories,
  ) {}

  template(templateId: string | null | undefined): Template | undefined {
    return templateId ? this.templates.get(templateId) : undefined;
  }

  /** Pulls or builds the image of the deployment. */
  async imageOf(agentId: string, agent: Agent, deployment: Deployment, log: BuildLog, signal: AbortSignal): Promise<Image> {
    const ensure = async (unplaced: ImageSource) => {
      const source = this.placed(unplaced);
      const releaseCommand = source.kind === 'project' ? (source.plan.release ?? null) : null;
      return { ...(await this.runtime.ensureImage(source, log.line, signal)), releaseCommand };
    };
    if (deployment.repoUrl !== null) return this.repositories.build(agentId, agent, deployment, log, signal, ensure);
    const own = agent.settings;
    originLines({ own, file: {} }).forEach(log.line);
    const said = settingsOf({ own, file: {} });
    return { ...(await ensure(await this.sourceOf(deployment, agent.accountId, said, log))), commitSha: null, framework: null, said };
  }

  /** Puts the port into the commands of a project, or the word for it where the runtime chooses the port. */
  private placed(source: ImageSource): ImageSource {
    if (source.kind !== 'project') return source;
    return { ...source, plan: planAt(source.plan, this.runtime.portWord(source.port ?? DEFAULT_PORT)) };
  }

  /** Pulls a pinned image anew for containers with this command. Throws `gone` if the pin has no name that a registry could know. */
  async pullAgain(
    gone: ImageGone,
    { accountId, command }: { accountId: string; command: string[] },
    log: (line: string) => void,
    signal: AbortSignal,
  ): Promise<void> {
    if (parseImageReference(gone.image)?.digest == null) throw gone;
    await this.runtime.ensureImage({ ...this.references.sourceFor(gone.image, accountId), start: command }, log, signal);
  }

  /** Returns the image of an earlier deployment as it was. One that the engine does not have any more is pulled again if a registry has it. */
  async bringBack(earlier: EarlierImage, accountId: string, log: BuildLog, signal: AbortSignal): Promise<ResolvedImage> {
    const { image, image_name: name, command } = earlier;
    try {
      return await this.runtime.ensureImage({ kind: 'earlier', earlier: { image, name, command } }, log.line, signal);
    } catch (error) {
      if (!(error instanceof ImageGone)) throw error;
      await this.pullAgain(error, { accountId, command }, log.line, signal);
      return { image, name, command };
    }
  }

  private async sourceOf({ imageName, templateId }: Deployment, accountId: string, said: RunSettings, log: BuildLog): Promise<ImageSource> {
    const start = said.start ?? null;
    if (imageName !== null) return { ...this.references.sourceFor(imageName, accountId), start };
    const template = this.template(templateId);
    if (template === undefined) throw new RuntimeRefused(`The template ${templateId ?? ''} is not there any more.`);
    const { source } = template;
    switch (source.kind) {
      case 'dockerfile':
        return { ...(await templateDockerfile(source, accountId, this.repositories.builder)), start };
      case 'project':
        return templateProject(source, { port: said.port ?? template.port, start }, this.repositories.buildSettings, log);
      case 'program':
        return { ...source, start: start ?? source.start };
      default:
        return source;
    }
  }
}
