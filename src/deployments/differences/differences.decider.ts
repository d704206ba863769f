import type { Agent } from '../../agents/index.ts';
import type { ListedContainer } from '../../platform/runtime/runtime.ts';
import type { Rules } from '../../sandboxes/lifecycle/steps.decider.ts';
import { nextStep } from '../containers/next-step.decider.ts';

/** An agent, as read from its row. */
export interface KnownAgent {
  agent: Agent;
  lastActiveAt: Date | null;
  /** True if work is in flight for the agent. */
  held: boolean;
}

/** The containers and the volume of an agent in one bulk listing of the engine. */
export interface Listed {
  containers: readonly ListedContainer[];
  volume: boolean;
}

/**
 * Returns true if a pass over the agent would do something. It applies the rules of the pass, so the two cannot disagree. What a list omits
 * of a container (its exit code, its start time) affects what is recorded, never whether there is something to do. If the engine is
 * unavailable (null), an agent is looked at only if it has a deadline or is being deleted.
 */
export function differs({ agent, lastActiveAt, held }: KnownAgent, listed: Listed | null, rules: Rules, now: Date): boolean {
  if (listed === null) return agent.deadlineAt !== null || agent.status === 'deleting';
  const containers = listed.containers.map((container) => ({ ...container, exitCode: null, oomKilled: false, startedAt: null }));
  return nextStep(agent, { containers, volume: listed.volume, held, lastActiveAt, started: null }, rules, now).do !== 'rest';
}
