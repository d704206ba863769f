import type { AgentApi } from './agent-api.ts';
import type { Engine } from './engine.ts';
import type { Exception } from './outcome.ts';
import type { Service } from './service.ts';
import type { WalkImages } from './walk-images.ts';
import type { GitServer } from '../../test/support/git-server.ts';

/** The tools of all steps. */
export interface Walk {
  readonly engine: Engine;
  readonly service: Service;
  readonly api: AgentApi;
  readonly git: GitServer;
  readonly images: WalkImages;
  /** An address of the engine's host with two ports, of which agents may reach the first; null if the engine has no default network. */
  readonly host: { address: string; openPort: number; closedPort: number } | null;
  /** The agents by the names that the steps assign to them. */
  readonly agents: Map<string, string>;
}

/** One claim about the engine that is checked. `run` throws if it does not hold. */
export interface Step {
  /** The claim, as the report shows it; it is unique. */
  name: string;
  /** The time after which the step has failed. */
  seconds: number;
  /** The name of an earlier step of the same part that has to succeed first. */
  needs?: string;
  run(walk: Walk): Promise<Exception | void>;
}

/** A named part of the check, which creates everything that its steps need. */
export interface Part {
  name: string;
  steps: Step[];
}

/** Returns the id of the agent that an earlier step created. */
export function agentNamed(walk: Walk, name: string): string {
  const id = walk.agents.get(name);
  if (id === undefined) throw new Error(`there is no agent ${name}`);
  return id;
}
