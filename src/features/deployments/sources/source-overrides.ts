import type { DeploymentSource } from '../../agents/index.ts';

/** Overrides of the agent's settings for one deployment. Null or absent keeps the agent's setting. */
export interface SourceOverrides {
  /** The kind of source that must be deployed. A value of another kind counts as absent. */
  source?: DeploymentSource;
  imageName?: string | null;
  repoUrl?: string | null;
  /** The caller's spelling of `repoUrl`; the default is `repo_url`. */
  repoField?: 'repo_url' | 'repoUrl';
  branch?: string | null;
  templateId?: string | null;
}
