import { afterExit } from '../../../sandboxes/lifecycle/crashes.rules.ts';
import type { LifecycleRecord, SleepDepth } from '../../../sandboxes/lifecycle/sandbox.rules.ts';
import { deploymentStep, isAsleep, isInTransit, type Agent } from './agent-state.rules.ts';
import { startTimeoutOf } from './deadlines.rules.ts';
import type { AgentEvent, DeploymentFailureKind, FailureKind, ReleaseRun } from './agents.events.ts';

/** The observations of the deployments saga. A late or repeated record changes nothing. */
export type AgentRecord =
  /** `again` says that it had begun. */
  | { type: 'RecordDeploymentQueued'; deploymentId: string; deadlineAt: string; again?: boolean }
  | { type: 'RecordDeploymentStarted'; deploymentId: string; deadlineAt: string }
  | {
      type: 'RecordImage';
      deploymentId: string;
      image: string;
      imageName: string;
      command: string[];
      commitSha: string | null;
      /** The framework of a recognized repository, whose template says how the agent is run. */
      framework?: string | null;
      /** The start timeout that the agent or its template says; null or absent means the installation's. */
      startTimeoutSeconds?: number | null;
      /** The command that runs before the agent; null or absent if there is none. */
      releaseCommand?: string[] | null;
      /** The run settings that were said; null or absent if none was. */
      run?: ReleaseRun | null;
    }
  | { type: 'RecordReleaseBegun'; deploymentId: string; generation: number }
  | { type: 'RecordReleaseSucceeded'; deploymentId: string; generation: number }
  | { type: 'RecordContainerCreated'; deploymentId: string; generation: number }
  | { type: 'RecordScriptsBegun'; deploymentId: string; generation: number }
  | { type: 'RecordDeploymentFailure'; deploymentId: string; kind: DeploymentFailureKind; reason: string }
  | { type: 'RecordFailure'; kind: Exclude<FailureKind, 'volume'>; reason: string }
  | LifecycleRecord;

/** Returns the events that follow from an observation. */
export function decideRecord(command: AgentRecord, agent: Agent, now: Date): AgentEvent[] {
  switch (command.type) {
    case 'RecordDeploymentQueued':
      return isUnresolved(agent, command.deploymentId) && mayWait(agent, command.again === true)
        ? [{ type: 'DeploymentQueued', data: { deployment_id: command.deploymentId, deadline_at: command.deadlineAt } }]
        : [];
    case 'RecordDeploymentStarted':
      return isUnresolved(agent, command.deploymentId) && (agent.deployment?.status === 'queued' || agent.deployment?.isWaiting === true)
        ? [{ type: 'DeploymentStarted', data: { deployment_id: command.deploymentId, deadline_at: command.deadlineAt } }]
        : [];
    case 'RecordImage': {
      if (!isDeploying(agent, command.deploymentId) || agent.candidate !== null) return [];
      const { image, imageName, deploymentId, commitSha, framework, startTimeoutSeconds, run, releaseCommand } = command;
      return [
        {
          type: 'ImageResolved',
          data: {
            deployment_id: deploymentId,
            image,
            image_name: imageName,
            command: command.command,
            commit_sha: commitSha,
            ...(framework == null ? {} : { framework }),
            ...(startTimeoutSeconds == null ? {} : { start_timeout_seconds: startTimeoutSeconds }),
            ...(releaseCommand == null ? {} : { release_command: releaseCommand }),
            ...(run == null ? {} : { run }),
          },
        },
      ];
    }
    case 'RecordReleaseBegun':
      return hasReleaseBegun(agent, command) === false
        ? [{ type: 'ReleaseCommandBegun', data: { deployment_id: command.deploymentId, generation: command.generation } }]
        : [];
    case 'RecordReleaseSucceeded':
      return hasReleaseBegun(agent, command) === true
        ? [{ type: 'ReleaseCommandSucceeded', data: { deployment_id: command.deploymentId, generation: command.generation + 1 } }]
        : [];
    case 'RecordContainerCreated':
      return isDeploying(agent, command.deploymentId) && agent.deployment?.status === 'building' && agent.generation === command.generation
        ? [
            {
              type: 'ContainerCreated',
              data: { deployment_id: command.deploymentId, generation: command.generation },
            },
          ]
        : [];
    case 'RecordScriptsBegun':
      return isDeploying(agent, command.deploymentId) && agent.deployment?.scriptsBegun === false && agent.generation === command.generation
        ? [{ type: 'DeploymentScriptsBegun', data: { deployment_id: command.deploymentId, generation: command.generation } }]
        : [];
    case 'RecordDeploymentFailure':
      return isDeploying(agent, command.deploymentId) ? [deploymentFailed(agent, command.kind, command.reason)] : [];
    case 'RecordReady':
      return agent.generation === command.generation ? recordReady(agent, now) : [];
    case 'RecordStopped':
      return agent.status === 'stopping' && agent.wantedSleep === null ? [{ type: 'AgentStopped', data: {} }] : [];
    case 'RecordSlept':
      return recordSlept(agent, command.depth, now);
    case 'RecordExit':
      return recordExit(agent, command, now);
    case 'RecordFailure':
      return recordFailure(agent, command.kind, command.reason);
    case 'RecordVolumeFull':
      return recordVolumeFull(agent, command.reason);
    case 'RecordDeleted':
      return agent.status === 'deleting' ? [{ type: 'AgentDeleted', data: {} }] : [];
  }
}

/** Returns whether that deployment of the agent is in progress. */
export function isDeploying(agent: Agent, deploymentId: string): boolean {
  return agent.status === 'deploying' && agent.deployment?.id === deploymentId;
}

/** Returns whether the deployment in progress may begin to wait for a place, or `again` after it had begun. */
function mayWait({ deployment }: Agent, again: boolean): boolean {
  return deployment?.isWaiting === false && (deployment.status === 'building') === again;
}

/** Returns whether that deployment is in progress and has no image yet. */
function isUnresolved(agent: Agent, deploymentId: string): boolean {
  return isDeploying(agent, deploymentId) && agent.candidate === null;
}

/** Returns whether the release command of the container of that generation has begun; null if it has none. */
function hasReleaseBegun(agent: Agent, { deploymentId, generation }: { deploymentId: string; generation: number }): boolean | null {
  const isCurrent = isDeploying(agent, deploymentId) && agent.generation === generation;
  return isCurrent ? (agent.deployment?.releaseCommand?.hasBegun ?? null) : null;
}

function deploymentFailed(agent: Agent, kind: DeploymentFailureKind, reason: string): AgentEvent {
  return { type: 'DeploymentFailed', data: { deployment_id: agent.deployment?.id ?? '', step: deploymentStep(agent), kind, reason } };
}

function recordReady(agent: Agent, now: Date): AgentEvent[] {
  const started_at = now.toISOString();
  switch (agent.status) {
    case 'deploying':
      if (agent.candidate === null || agent.deployment === null || agent.deployment.releaseCommand !== null) return [];
      return [{ type: 'DeploymentSucceeded', data: { deployment_id: agent.deployment.id, started_at } }];
    case 'starting':
    case 'restarting':
      return [{ type: 'AgentStarted', data: { generation: agent.generation, started_at } }];
    case 'waking':
      return [{ type: 'AgentWoke', data: { after: agent.sleepDepth ?? 'frozen', started_at } }];
    case 'error':
      if (agent.failure === 'deployment' || agent.failure === 'volume' || agent.release === null) return [];
      return [{ type: 'AgentStarted', data: { generation: agent.generation, started_at } }];
    default:
      return [];
  }
}

function recordSlept(agent: Agent, depth: SleepDepth, now: Date): AgentEvent[] {
  const goingToSleep = agent.status === 'stopping' && agent.wantedSleep !== null;
  const deeper = agent.status === 'sleeping' && depth === 'stopped' && agent.sleepDepth === 'frozen';
  if (!goingToSleep && !deeper) return [];
  return [{ type: 'AgentSlept', data: { depth, slept_at: now.toISOString() } }];
}

function recordExit(agent: Agent, exit: Extract<AgentRecord, { type: 'RecordExit' }>, now: Date): AgentEvent[] {
  const expectedUp = ['active', 'starting', 'restarting', 'waking'].includes(agent.status);
  if (!expectedUp || exit.generation !== agent.generation) return [];
  return [
    {
      type: 'ContainerExited',
      data: {
        generation: exit.generation,
        exit_code: exit.exitCode,
        oom: exit.oom,
        cause: exit.cause,
        ...afterExit(agent, startTimeoutOf(agent.release, exit), now),
      },
    },
  ];
}

function recordFailure(agent: Agent, kind: Exclude<FailureKind, 'volume'>, reason: string): AgentEvent[] {
  if (agent.status === 'deploying') return [deploymentFailed(agent, kind === 'crash' ? 'deployment' : kind, reason)];
  if (!isInTransit(agent)) return [];
  return [{ type: 'AgentFailed', data: { during: agent.status, kind, reason } }];
}

/** An agent whose container is stopped, or is being stopped, can't write any more. */
function recordVolumeFull(agent: Agent, reason: string): AgentEvent[] {
  if (agent.status === 'deploying') return [deploymentFailed(agent, 'deployment', reason)];
  const writes = ['active', 'starting', 'restarting', 'waking', 'sleeping'].includes(agent.status) || isAsleep(agent);
  const stillRuns = agent.status === 'error' && (agent.failure === 'timeout' || agent.failure === 'runtime');
  return writes || stillRuns ? [{ type: 'AgentFailed', data: { during: agent.status, kind: 'volume', reason } }] : [];
}
