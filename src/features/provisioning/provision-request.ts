import type { ImageChoice } from '../agents/index.ts';
import type { VariableInput } from './variable-inputs.ts';
import type { RunSettings } from '../../builds/run-settings/run-settings.ts';
import type { Spelling } from '../../kernel/text/spelling.ts';
import type { AgentEgress } from '../../kernel/network/allow-list.ts';

/** The desired agent; absent members have their defaults. */
export interface ProvisionRequest {
  name: string;
  description?: string | null;
  /** The default is `auto`. */
  image?: ImageChoice;
  imageName?: string | null;
  repoUrl?: string | null;
  /** The default is `main`. */
  branch?: string;
  templateId?: string | null;
  /** The caller's own id for the agent. A repeated request with the same id returns the same agent. */
  externalId?: string | null;
  /** The default is true. */
  serverless?: boolean;
  /** The idle time in seconds after which the agent sleeps; the default is 300, and 0 means never. */
  idleTtlSeconds?: number;
  /** The network that the agent may reach; the default is everything that the operator allows. */
  egress?: AgentEgress | null;
  /** The default is true. */
  tokenlessWebhooks?: boolean;
  /** Plain variables, and references to secrets of the account. */
  variables?: Record<string, VariableInput>;
  /** The run settings that the request says. */
  run?: RunSettings;
  /** The caller's spelling of the fields, in refusals; the default is `snake_case`. */
  spelling?: Spelling;
  /** The default is true. */
  autoDeploy?: boolean;
}

/** Returns whether a variable takes its value from a secret of the account. */
export function usesSecrets({ variables = {} }: ProvisionRequest): boolean {
  return Object.values(variables).some((given) => typeof given !== 'string');
}
