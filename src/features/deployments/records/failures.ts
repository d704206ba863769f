import type { Agent, AgentRecord } from '../../agents/index.ts';
import type { ContainerView } from '../../../runtime/container.ts';

/** Returns the record of a deployment whose container ended before it was ready. */
export function exitedEarly(agent: Agent, { exitCode, oomKilled }: ContainerView): AgentRecord {
  const how = `exit code ${exitCode ?? 'unknown'}${oomKilled ? ', out of memory' : ''}`;
  const deploymentId = agent.deployment?.id ?? '';
  return { type: 'RecordDeploymentFailure', deploymentId, kind: 'deployment', reason: `The container ended before it was ready (${how}).` };
}

/** Returns the record of a deployment that failed for this reason. */
export function failureOf(deploymentId: string, reason: string): AgentRecord {
  return { type: 'RecordDeploymentFailure', deploymentId, kind: 'deployment', reason };
}
