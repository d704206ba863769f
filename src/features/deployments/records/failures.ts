import type { Agent, AgentRecord } from '../../agents/index.ts';
import type { ContainerView } from '../../../runtime/container.ts';

/** Returns the record of a deployment whose container ended before it was ready. */
export function exitedEarly(agent: Agent, container: ContainerView): AgentRecord {
  return failureOf(agent.deployment?.id ?? '', `The container ended before it was ready (${endOf(container)}).`);
}

/** Returns the record of a deployment whose release command failed; `reason` is what its output says, or empty. */
export function releaseFailed(deploymentId: string, container: ContainerView, reason: string): AgentRecord {
  const doubt = container.notBegun ? ', with which it also ends if it could not begin; it may have run, so it is not run again' : '';
  return failureOf(deploymentId, `The release command failed (${endOf(container)}${doubt})${reason === '' ? '.' : `: ${reason}`}`);
}

/** Returns the record of a deployment that failed for this reason. */
export function failureOf(deploymentId: string, reason: string): AgentRecord {
  return { type: 'RecordDeploymentFailure', deploymentId, kind: 'deployment', reason };
}

function endOf({ exitCode, oomKilled }: ContainerView): string {
  return `exit code ${exitCode ?? 'unknown'}${oomKilled ? ', out of memory' : ''}`;
}
