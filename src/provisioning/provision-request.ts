import type { ImageChoice } from '../agents/index.ts';

/** What an agent is to be; what is absent is as usual. */
export interface ProvisionRequest {
  name: string;
  description?: string | null;
  /** `auto` where absent. */
  image?: ImageChoice;
  imageName?: string | null;
  repoUrl?: string | null;
  /** `main` where absent. */
  branch?: string;
  templateId?: string | null;
  /** The caller's own id for the agent: whoever asks for the same again gets the same agent. */
  externalId?: string | null;
  /** True where absent. */
  serverless?: boolean;
  /** Seconds, 300 where absent; 0: never sleeps. */
  idleTtlSeconds?: number;
  /** Variables that anybody with access may read. */
  variables?: Record<string, string>;
  /** True where absent. */
  autoDeploy?: boolean;
}
