import type { Agent } from '../agents/index.ts';
import type { ListedContainer } from '../platform/runtime/runtime.ts';
import { nextStep, type Rules } from './next-step.decider.ts';

/** An agent as its row shows it. */
export interface KnownAgent {
  agent: Agent;
  lastActiveAt: Date | null;
  /** Whether work is in flight for the agent. */
  held: boolean;
}

/** What one bulk look at the engine shows of an agent. */
export interface Listed {
  containers: readonly ListedContainer[];
  volume: boolean;
}

/**
 * Whether a pass over the agent would do something. It asks the same rules that the pass asks, so the two can't disagree. What a list
 * does not show of a container (how it ended, when it started) decides what is recorded, never whether there is something to do. An
 * engine that does not answer (null) has an agent looked at only where its time may run out.
 */
export function differs({ agent, lastActiveAt, held }: KnownAgent, listed: Listed | null, rules: Rules, now: Date): boolean {
  if (listed === null) return agent.deadlineAt !== null || agent.status === 'deleting';
  const containers = listed.containers.map((container) => ({ ...container, exitCode: null, oomKilled: false, startedAt: null }));
  return nextStep(agent, { containers, volume: listed.volume, held, lastActiveAt, started: null }, rules, now).do !== 'rest';
}
