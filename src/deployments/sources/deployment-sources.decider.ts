import type { AgentSettings, DeploymentRequest } from '../../agents/index.ts';
import { invalidField, Refusal } from '../../platform/errors/refusal.ts';

/** Overrides of the agent's settings for one deployment. Null or absent keeps the agent's setting. */
export interface SourceOverrides {
  imageName?: string | null;
  repoUrl?: string | null;
  branch?: string | null;
  templateId?: string | null;
}

type SourceSettings = Pick<AgentSettings, 'image' | 'image_name' | 'repo_url' | 'branch' | 'template_id'>;

/** Returns the refusal of a deployment from a Git repository; `field` is spelled as in the caller's request. */
export function repositoryRefusal(field: 'repo_url' | 'repoUrl'): Refusal {
  return invalidField(field, 'deployments from Git repositories are not part of this version');
}

/**
 * Returns the source of a deployment: the first one that the overrides, then the agent's settings, name. Throws `invalid_request`,
 * `template_not_found`.
 */
export function deploymentSource(
  settings: SourceSettings,
  overrides: SourceOverrides,
  hasTemplate: (id: string) => boolean,
): Omit<DeploymentRequest, 'deploymentId'> {
  if (overrides.repoUrl) throw repositoryRefusal('repo_url');
  if (overrides.imageName) return ofImage(overrides.imageName);
  if (overrides.templateId) return ofTemplate(overrides.templateId, hasTemplate);
  if (settings.repo_url !== null) throw repositoryRefusal('repo_url');
  if (settings.image_name !== null) return ofImage(settings.image_name);
  if (settings.template_id !== null) return ofTemplate(settings.template_id, hasTemplate);
  switch (settings.image) {
    case 'docker':
    case 'custom':
      throw invalidField('image_name', `must be given where image is ${settings.image}`);
    case 'auto':
      throw invalidField('image', 'there is nothing to deploy: give image_name, or the image of a template');
    default:
      if (!hasTemplate(settings.image)) throw invalidField('image', `this installation has no template ${settings.image}; give image_name`);
      return ofTemplate(settings.image, hasTemplate);
  }
}

function ofImage(imageName: string): Omit<DeploymentRequest, 'deploymentId'> {
  return { source: 'docker', imageName, repoUrl: null, branch: null, templateId: null };
}

function ofTemplate(templateId: string, hasTemplate: (id: string) => boolean): Omit<DeploymentRequest, 'deploymentId'> {
  if (!hasTemplate(templateId)) throw new Refusal('template_not_found', `There is no template ${templateId}.`);
  return { source: 'template', imageName: null, repoUrl: null, branch: null, templateId };
}
