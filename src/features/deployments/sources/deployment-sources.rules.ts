import type { AgentSettings, DeploymentRequest, ReleaseRun } from '../../agents/index.ts';
import { invalidField, ProblemError } from '../../../kernel/errors/problem-error.ts';
import type { SourceOverrides } from './source-overrides.ts';

/** The members of a deployment's record from which its image can be deployed again. */
export interface EarlierDeployment {
  id: string;
  source: string;
  repo_url: string | null;
  branch: string | null;
  template_id: string | null;
  image: string | null;
  image_name: string | null;
  command: string[] | null;
  commit_sha: string | null;
  run: ReleaseRun;
  start_timeout_seconds: number | null;
}

type SourceSettings = Pick<AgentSettings, 'image' | 'image_name' | 'repo_url' | 'branch' | 'template_id'>;

/**
 * Returns the source of a deployment: the first one named by the overrides or else by the agent's settings. Throws `invalid_request`,
 * `template_not_found`.
 */
export function deploymentSource(
  settings: SourceSettings,
  overrides: SourceOverrides,
  hasTemplate: (id: string) => boolean,
): Omit<DeploymentRequest, 'deploymentId'> {
  if (overrides.source !== undefined)
    return deploymentSource(settings, ofKind(overrides.source, settings, overrides, hasTemplate), hasTemplate);
  const branch = overrides.branch ?? settings.branch;
  if (overrides.repoUrl) return ofRepository(overrides.repoUrl, branch);
  if (overrides.imageName) return ofImage(overrides.imageName);
  if (overrides.templateId) return ofTemplate(overrides.templateId, hasTemplate);
  if (settings.repo_url !== null && settings.image !== 'custom') return ofRepository(settings.repo_url, branch);
  if (overrides.branch) throw invalidField('branch', 'must be given with a repository only');
  if (settings.image_name !== null) return ofImage(settings.image_name);
  if (settings.template_id !== null) return ofTemplate(settings.template_id, hasTemplate);
  switch (settings.image) {
    case 'docker':
      throw invalidField('image_name', 'must be given where image is docker, or else repo_url');
    case 'custom':
      throw invalidField('image_name', 'must be given where image is custom');
    case 'auto':
      if (overrides.spelling === 'camelCase') throw invalidField('templateId', 'must be given, or else imageName or repoUrl');
      throw invalidField('image', 'there is nothing to deploy: give image_name, repo_url, or the image of a template');
    default:
      if (!hasTemplate(settings.image)) throw invalidField('image', `this installation has no template ${settings.image}; give image_name`);
      return ofTemplate(settings.image, hasTemplate);
  }
}

/** Returns the overrides of this kind, completed from the agent's settings. Throws `invalid_request` if neither names such a source. */
function ofKind(
  source: DeploymentRequest['source'],
  settings: SourceSettings,
  { imageName, repoUrl, spelling, branch, templateId }: SourceOverrides,
  hasTemplate: (id: string) => boolean,
): SourceOverrides {
  const required = <T>(field: string, value: T | null | undefined): T => {
    if (value == null) throw invalidField(field, `must be given where source is ${source}, because the agent's own settings name none`);
    return value;
  };
  switch (source) {
    case 'github':
      return { repoUrl: required('repoUrl', repoUrl ?? settings.repo_url), spelling, branch };
    case 'docker':
      return { imageName: required('imageName', imageName ?? settings.image_name) };
    case 'template': {
      const own = settings.template_id ?? (hasTemplate(settings.image) ? settings.image : null);
      return { templateId: required('templateId', templateId ?? own) };
    }
  }
}

/** Returns the source of a deployment with the image of an earlier successful one. */
export function earlierSource(row: EarlierDeployment): Omit<DeploymentRequest, 'deploymentId'> {
  const { id, source, repo_url: repoUrl, branch, template_id: templateId, image, image_name, command, commit_sha } = row;
  const { run, start_timeout_seconds } = row;
  if (image === null || image_name === null || command === null) throw new Error(`the successful deployment ${id} has no image`);
  return {
    source: source as DeploymentRequest['source'],
    imageName: source === 'docker' ? image_name : null,
    repoUrl,
    branch,
    templateId,
    earlier: {
      deployment_id: id,
      image,
      image_name,
      command,
      commit_sha,
      ...(Object.keys(run).length === 0 ? {} : { run }),
      ...(start_timeout_seconds === null ? {} : { start_timeout_seconds }),
    },
  };
}

function ofRepository(repoUrl: string, branch: string): Omit<DeploymentRequest, 'deploymentId'> {
  return { source: 'github', imageName: null, repoUrl, branch, templateId: null };
}

function ofImage(imageName: string): Omit<DeploymentRequest, 'deploymentId'> {
  return { source: 'docker', imageName, repoUrl: null, branch: null, templateId: null };
}

function ofTemplate(templateId: string, hasTemplate: (id: string) => boolean): Omit<DeploymentRequest, 'deploymentId'> {
  if (!hasTemplate(templateId)) throw new ProblemError('template_not_found', `There is no template ${templateId}.`);
  return { source: 'template', imageName: null, repoUrl: null, branch: null, templateId };
}
