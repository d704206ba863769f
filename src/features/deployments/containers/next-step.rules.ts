import type { Agent, AgentRecord, Deployment, Release } from '../../agents/index.ts';
import type { ContainerView } from '../../../runtime/container.ts';
import {
  bringDown,
  bringUp,
  isMine,
  isUp,
  keepAsleep,
  keepUp,
  LAST_OBSERVATION_MS,
  createContainer,
  mineOf,
  nextCheckAt as nextCheckOf,
  isOverdue,
  putToSleep,
  removeStale,
  rest,
  stopRunning,
  tearDown,
  type ActualState,
  type StepRules,
  type Step as StepOf,
} from '../../../sandboxes/lifecycle/steps.rules.ts';

/** A step that only agents have. */
export type OwnStep =
  | { do: 'resolve_image' }
  | { do: 'fail_exited'; container: ContainerView }
  /** Copies the output of the release command to the build log until the command ends. */
  | { do: 'follow_release'; container: ContainerView }
  /** Records the outcome of the release command, which has ended. */
  | { do: 'end_release'; container: ContainerView };

export type Step = StepOf<AgentRecord, OwnStep>;

/** Returns the next step that brings the agent's container to the desired state in its stream. The switch is a table of the statuses. */
export function nextStep(agent: Agent, actual: ActualState, rules: StepRules, now: Date): Step {
  switch (agent.status) {
    case 'deleting':
      return tearDown(actual) ?? { do: 'erase' };
    case 'deleted':
      return tearDown(actual) ?? rest;
    case 'deploying':
      return deploy(agent, actual, rules, now);
    case 'starting':
    case 'restarting':
    case 'waking':
      if (agent.release === null) return { do: 'record', record: neverDeployedRecord };
      return bringUp(agent, actual, agent.status === 'waking', rules, now);
    case 'stopping':
      return agent.wantedSleep === null ? bringDown(agent, actual, now) : putToSleep(agent, actual, rules, now);
    case 'sleeping':
      return keepAsleep(agent, actual, rules, now);
    case 'active':
      return keepUp(agent, actual, idleSeconds(agent), rules, now);
    case 'stopped':
      return removeStale(agent, actual) ?? stopRunning(agent, actual) ?? rest;
    case 'error':
      return recover(agent, actual);
    case 'created':
      return removeStale(agent, actual) ?? rest;
  }
}

/** Returns the agent's next deadline, at which it is checked without an event; null if it has none. */
export function nextCheckAt(agent: Agent, actual: ActualState, rules: StepRules, now: Date): Date | null {
  return nextCheckOf(agent, actual, idleSeconds(agent), rules, now);
}

/** Returns the release that the agent's container runs: that of the deployment in progress or, without one, the last successful one. */
export function wantedRelease({ candidate, release }: Agent): Release | null {
  return candidate ?? release;
}

const neverDeployedRecord: AgentRecord = { type: 'RecordFailure', kind: 'deployment', reason: 'It was never deployed.' };

function idleSeconds({ settings: { serverless, idle_ttl_seconds: seconds } }: Agent): number | null {
  return serverless && seconds !== 0 ? seconds : null;
}

function deploy(agent: Agent, actual: ActualState, rules: StepRules, now: Date): Step {
  const { deployment, candidate } = agent;
  if (deployment === null) return rest;
  const deploymentId = deployment.id;
  const mine = mineOf(agent, actual);
  const isReleasing = deployment.releaseCommand !== null;
  if (isOverdue(agent, now) && (isReleasing || mine?.state !== 'running')) return { do: 'record', record: tooLate(deployment) };
  if (candidate === null) return { do: 'own', own: { do: 'resolve_image' } };
  // It comes before an outdated container is replaced, because that one may be the command's.
  if (mine === undefined && deployment.releaseCommand?.hasBegun === true) return { do: 'record', record: lostRelease(deploymentId) };
  // An older container is removed after the agent is active, so that the deployment does not wait for that.
  const stale = actual.containers.find((container) => !isMine(agent, container) && isUp(container));
  if (stale !== undefined) return { do: mine === undefined ? 'replace' : 'stop', container: stale };
  if (isReleasing) return releaseStep(agent, deployment, actual, mine);
  // A service that was suspended before it started the release command would start it again.
  const release = actual.containers.find((container) => container.deploymentId === deploymentId && container.generation < agent.generation);
  if (release !== undefined) return { do: 'remove', container: release, gently: true };
  const missing = createContainer(actual, mine);
  if (missing !== null || mine === undefined) return missing ?? rest;
  const created: AgentRecord = { type: 'RecordContainerCreated', deploymentId, generation: agent.generation };
  if (deployment.status === 'building')
    return mine.state === 'created' ? { do: 'start', container: mine, meanwhile: created } : { do: 'record', record: created };
  switch (mine.state) {
    case 'created':
      return { do: 'start', container: mine };
    case 'frozen':
      return { do: 'thaw', container: mine };
    case 'exited':
      if (mine.notBegun && actual.started !== mine.handle) return { do: 'start', container: mine };
      return { do: 'own', own: { do: 'fail_exited', container: mine } };
    case 'running': {
      // A service that ended during the scripts may have left one running. They start again in a new container.
      if (deployment.scriptsBegun && actual.started !== mine.handle) return { do: 'remove', container: mine, gently: true };
      const startedAt = mine.startedAt === null ? now.getTime() : Date.parse(mine.startedAt);
      const seconds = candidate.startTimeoutSeconds ?? rules.startTimeoutSeconds;
      const readyBy = Math.min(startedAt + seconds * 1000, Date.parse(agent.deadlineAt ?? now.toISOString()));
      const reason = `It was not ready within ${seconds} s of its start.`;
      const otherwise: AgentRecord = { type: 'RecordDeploymentFailure', deploymentId, kind: 'timeout', reason };
      return { do: 'await_ready', container: mine, withinMs: Math.max(LAST_OBSERVATION_MS, readyBy - now.getTime()), otherwise };
    }
  }
}

function tooLate({ id: deploymentId, isWaiting }: Deployment): AgentRecord {
  const reason = isWaiting ? 'No place to build or pull became free in time.' : 'It took longer than a deployment may.';
  return { type: 'RecordDeploymentFailure', deploymentId, kind: 'timeout', reason };
}

function lostRelease(deploymentId: string): AgentRecord {
  const reason =
    'The end of the release command was not seen: its container was removed, or made by another version of the service. It may have run, so it is not run again.';
  return { type: 'RecordDeploymentFailure', deploymentId, kind: 'deployment', reason };
}

/**
 * Returns the next step of a deployment whose release command has not succeeded. The command has the generation of the deployment, and the agent the next
 * one. A service that takes the deployment over finds the command's container as it is, and does not start it again. One that has ended is never started
 * again either, even if its exit code says that it may not have begun, because programs end with that code, too.
 */
function releaseStep(agent: Agent, { id: deploymentId, releaseCommand }: Deployment, actual: ActualState, mine?: ContainerView): Step {
  const missing = createContainer(actual, mine);
  if (missing !== null || mine === undefined) return missing ?? rest;
  if (releaseCommand?.hasBegun === false)
    return { do: 'record', record: { type: 'RecordReleaseBegun', deploymentId, generation: agent.generation } };
  switch (mine.state) {
    case 'created':
      return { do: 'start', container: mine };
    case 'frozen':
      return { do: 'thaw', container: mine };
    case 'running':
      return { do: 'own', own: { do: 'follow_release', container: mine } };
    case 'exited':
      return { do: 'own', own: { do: 'end_release', container: mine } };
  }
}

function recover(agent: Agent, actual: ActualState): Step {
  const mine = mineOf(agent, actual);
  const stale = removeStale(agent, actual);
  if (stale !== null) return stale;
  if (agent.failure === 'deployment') return mine === undefined ? rest : { do: 'remove', container: mine, gently: true };
  if (agent.failure === 'volume') return stopRunning(agent, actual) ?? rest;
  if (agent.failure === 'crash') return rest;
  if (mine?.state === 'running') return { do: 'await_ready', container: mine, withinMs: LAST_OBSERVATION_MS, otherwise: null };
  return agent.failure === 'runtime' && agent.release !== null ? { do: 'order', order: 'restart' } : rest;
}
