import { ProblemError } from '../../../kernel/errors/problem-error.ts';

export function agentNotFound(): ProblemError {
  return new ProblemError('agent_not_found', 'There is no such agent.');
}

/** Returns the refusal of an agent that must not be woken in that status. */
export function notRunning(status: string): ProblemError {
  return new ProblemError('agent_unavailable', `The agent is not running (${status}).`, { members: { agent_status: status } });
}

/** Returns whether the agent was refused because it is being deployed, which ends by the deadline of the deployment. */
export function isBeingDeployed(error: unknown): boolean {
  return error instanceof ProblemError && error.code === 'agent_unavailable' && error.facts.members?.['agent_status'] === 'deploying';
}
