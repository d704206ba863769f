import type { Spelling } from '../../../kernel/text/spelling.ts';
import type { DeploymentSource } from '../../agents/index.ts';

/** Overrides of the agent's settings for one deployment. Null or absent keeps the agent's setting. */
export interface SourceOverrides {
  /** The kind of source that must be deployed. A value of another kind counts as absent. */
  source?: DeploymentSource;
  imageName?: string | null;
  repoUrl?: string | null;
  /** The caller's spelling of fields, in refusals; the default is `snake_case`. */
  spelling?: Spelling;
  branch?: string | null;
  templateId?: string | null;
}
