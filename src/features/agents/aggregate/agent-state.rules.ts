import { isOneOf } from '../../../eventsourcing/event-store/event-definition.ts';
import { CRASHES_MAX } from '../../../sandboxes/lifecycle/crashes.rules.ts';
import type { Sandbox } from '../../../sandboxes/lifecycle/sandbox.rules.ts';
import {
  deploymentProgressEvents,
  lifecycleEvents,
  type AgentEvent,
  type AgentSettings,
  type DeploymentProgressEvent,
  type DeploymentSource,
  type DeploymentStep,
  type EarlierImage,
  type FailureKind,
  type LifecycleEvent,
  type ReleaseRun,
} from './agents.events.ts';

export const agentStatuses = [
  'created',
  'deploying',
  'active',
  'starting',
  'stopping',
  'restarting',
  'waking',
  'stopped',
  'sleeping',
  'error',
  'deleting',
] as const;
export type AgentStatus = (typeof agentStatuses)[number] | 'deleted';

export interface Deployment {
  id: string;
  source: DeploymentSource;
  imageName: string | null;
  repoUrl: string | null;
  branch: string | null;
  templateId: string | null;
  /** The image that the deployment brings back without a build; null unless it is a rollback. */
  earlier: EarlierImage | null;
  status: 'queued' | 'building' | 'starting' | 'success' | 'failed' | 'canceled';
  /** True while it has to wait for a place to build or pull, again if the service ended during the build. */
  isWaiting: boolean;
  /** The deadline that it got when it first began; null until then. */
  firstDeadlineAt: string | null;
  /** The release command that has to run before the agent's container is created; null if there is none, or none any more. */
  releaseCommand: { command: string[]; hasBegun: boolean } | null;
  /** True once custom scripts have begun to run in a container of the deployment. */
  scriptsBegun: boolean;
}

/** The image of a deployment, pinned by digest, from which containers are created. */
export interface Release {
  deploymentId: string;
  templateId: string | null;
  image: string;
  command: string[];
  /** The time in seconds within which a container must be ready; null means the installation's. */
  startTimeoutSeconds: number | null;
  /** The run settings that were said for its deployment; null if none was. */
  run: ReleaseRun | null;
}

/** The wanted sleep is also null in an agent that is being stopped by its owner. */
export interface Agent extends Sandbox {
  externalId: string | null;
  settings: AgentSettings;
  status: AgentStatus;
  message: string;
  /** The latest deployment. */
  deployment: Deployment | null;
  /** The release of the deployment in progress, once its image is resolved. */
  candidate: Release | null;
  /** The release of the last deployment that succeeded. */
  release: Release | null;
  failure: FailureKind | null;
}

/** The state is null before the agent is created. */
export type AgentState = Agent | null;

const inTransit: readonly AgentStatus[] = ['deploying', 'starting', 'stopping', 'restarting', 'waking'];

/** Returns whether the agent sleeps or is going to sleep. */
export function isAsleep(agent: Agent): boolean {
  return agent.status === 'sleeping' || (agent.status === 'stopping' && agent.wantedSleep !== null);
}

export function isInTransit(agent: Agent): boolean {
  return inTransit.includes(agent.status);
}

/** The value is true for events that change the agent's status. The others do not interrupt what it is doing. */
const TRANSITIONS: Record<AgentEvent['type'], boolean> = {
  AgentProvisioned: true,
  AgentConfigured: false,
  AgentDeletionRequested: true,
  AgentDeleted: true,
  DeploymentRequested: true,
  DeploymentQueued: false,
  DeploymentStarted: false,
  ImageResolved: false,
  ReleaseCommandBegun: false,
  ReleaseCommandSucceeded: false,
  ContainerCreated: false,
  DeploymentScriptsBegun: false,
  DeploymentSucceeded: true,
  DeploymentFailed: true,
  DeploymentCanceled: false,
  AgentStartRequested: true,
  AgentStarted: true,
  AgentStopRequested: true,
  AgentStopped: true,
  AgentRestartRequested: true,
  AgentSleepRequested: true,
  AgentSlept: true,
  AgentWakeRequested: true,
  AgentWoke: true,
  AgentFailed: true,
  ContainerExited: true,
};

/** Returns whether an event of the type changes the agent's status, and so causes what the agent does afterwards. */
export function beginsTransition(type: string): boolean {
  return Object.hasOwn(TRANSITIONS, type) && TRANSITIONS[type as AgentEvent['type']];
}

/** Returns the step that the agent's deployment has reached. */
export function deploymentStep({ deployment, candidate }: Agent): DeploymentStep {
  if (candidate === null) return 'image';
  if (deployment !== null && deployment.releaseCommand !== null) return 'release';
  if (deployment?.scriptsBegun === true) return 'scripts';
  return deployment?.status === 'starting' ? 'start' : 'container';
}

/** Returns the desired state, as callers see it. */
export function desiredState(agent: Agent): 'running' | 'sleeping' | 'stopped' | 'none' | 'deleted' {
  switch (agent.status) {
    case 'created':
      return 'none';
    case 'deleting':
    case 'deleted':
      return 'deleted';
    case 'stopped':
      return 'stopped';
    case 'sleeping':
      return 'sleeping';
    case 'stopping':
      return agent.wantedSleep === null ? 'stopped' : 'sleeping';
    default:
      return 'running';
  }
}

export const initialState = (): AgentState => null;

export function evolve(agent: AgentState, event: AgentEvent): AgentState {
  if (event.type === 'AgentProvisioned') return provisioned(event.data);
  if (agent === null) return agent;
  if (isOneOf(deploymentProgressEvents, event)) return evolveDeployment(agent, event);
  if (isOneOf(lifecycleEvents, event)) return evolveLifecycle(agent, event);
  switch (event.type) {
    case 'AgentConfigured':
      return { ...agent, settings: { ...agent.settings, ...event.data.changes } };
    case 'AgentDeletionRequested':
      return settled(agent, 'deleting', 'Being deleted.');
    case 'AgentDeleted':
      return settled(agent, 'deleted', 'Deleted.');
    default:
      event satisfies never;
      return agent;
  }
}

function provisioned(data: Extract<AgentEvent, { type: 'AgentProvisioned' }>['data']): Agent {
  const { account_id, external_id, ...settings } = data;
  return {
    accountId: account_id,
    externalId: external_id,
    settings,
    status: 'created',
    message: 'Created; not deployed yet.',
    generation: 0,
    deployment: null,
    candidate: null,
    release: null,
    deadlineAt: null,
    restartAt: null,
    wantedSleep: null,
    sleepDepth: null,
    sleptAt: null,
    activeSince: null,
    crashes: 0,
    failure: null,
  };
}

/**
 * Returns the agent in the status, with no transition in progress, as a new object that the caller may modify. It is copied member by
 * member, because rebuilds apply millions of events and a spread takes twenty times as long.
 */
function settled(agent: Agent, status: AgentStatus, message = agent.message): Agent {
  return {
    accountId: agent.accountId,
    externalId: agent.externalId,
    settings: agent.settings,
    status,
    message,
    generation: agent.generation,
    deployment: agent.deployment,
    candidate: agent.candidate,
    release: agent.release,
    deadlineAt: null,
    restartAt: null,
    wantedSleep: null,
    sleepDepth: null,
    sleptAt: null,
    activeSince: null,
    crashes: agent.crashes,
    failure: null,
  };
}

function inTransition(agent: Agent, status: AgentStatus, deadlineAt: string, message: string): Agent {
  const next = settled(agent, status, message);
  next.deadlineAt = deadlineAt;
  return next;
}

function running(agent: Agent, startedAt: string): Agent {
  const next = settled(agent, 'active', 'Running.');
  next.activeSince = startedAt;
  return next;
}

function afterExit(agent: Agent, data: Extract<AgentEvent, { type: 'ContainerExited' }>['data']): Agent {
  const how =
    data.cause === 'removed' ? 'its container was removed' : `exit code ${data.exit_code ?? 'unknown'}${data.oom ? ', out of memory' : ''}`;
  if (data.restart === null)
    return {
      ...settled(agent, 'error'),
      failure: 'crash',
      crashes: data.crashes,
      message: `Keeps crashing (${how}), ${data.crashes} times in a row.`,
    };
  const message = `Ended (${how}); being started again, attempt ${data.crashes} of ${CRASHES_MAX - 1}.`;
  return {
    ...inTransition(agent, 'restarting', data.restart.deadline_at, message),
    crashes: data.crashes,
    generation: data.restart.generation,
    restartAt: data.restart.at,
  };
}

function deploymentRequested(agent: Agent, data: Extract<AgentEvent, { type: 'DeploymentRequested' }>['data']): Agent {
  const { deployment_id: id, source, image_name: imageName, repo_url: repoUrl, branch, template_id: templateId, earlier = null } = data;
  const fresh = { status: 'queued', isWaiting: false, firstDeadlineAt: null, releaseCommand: null, scriptsBegun: false } as const;
  return {
    ...inTransition(agent, 'deploying', data.deadline_at, 'Deploying.'),
    generation: data.generation,
    deployment: { id, source, imageName, repoUrl, branch, templateId, earlier, ...fresh },
    candidate: null,
    crashes: 0,
  };
}

function evolveDeployment(agent: Agent, event: DeploymentProgressEvent): Agent {
  if (event.type === 'DeploymentRequested') return deploymentRequested(agent, event.data);
  const deployment = agent.deployment;
  if (deployment === null) return agent;
  switch (event.type) {
    case 'DeploymentQueued':
      return { ...agent, deadlineAt: event.data.deadline_at, deployment: { ...deployment, isWaiting: true } };
    case 'DeploymentStarted': {
      const deadlineAt = event.data.deadline_at ?? agent.deadlineAt;
      const firstDeadlineAt = deployment.firstDeadlineAt ?? deadlineAt;
      return { ...agent, deadlineAt, deployment: { ...deployment, status: 'building', isWaiting: false, firstDeadlineAt } };
    }
    case 'ImageResolved': {
      const { deployment_id: deploymentId, image, command, framework, run = null, release_command: release } = event.data;
      const { start_timeout_seconds: startTimeoutSeconds = null } = event.data;
      const templateId = framework ?? deployment.templateId;
      return {
        ...agent,
        deployment: {
          ...deployment,
          isWaiting: false,
          releaseCommand: release === undefined ? null : { command: release, hasBegun: false },
        },
        candidate: { deploymentId, templateId, image, command, startTimeoutSeconds, run },
      };
    }
    case 'ReleaseCommandBegun':
      return {
        ...agent,
        deployment: { ...deployment, releaseCommand: deployment.releaseCommand && { ...deployment.releaseCommand, hasBegun: true } },
      };
    case 'ReleaseCommandSucceeded':
      return { ...agent, deployment: { ...deployment, releaseCommand: null }, generation: event.data.generation };
    case 'ContainerCreated':
      return { ...agent, deployment: { ...deployment, status: 'starting' } };
    case 'DeploymentScriptsBegun':
      return { ...agent, deployment: { ...deployment, scriptsBegun: true } };
    case 'DeploymentSucceeded':
      return {
        ...running(agent, event.data.started_at),
        deployment: { ...deployment, status: 'success' },
        release: agent.candidate,
        candidate: null,
      };
    case 'DeploymentFailed':
      return {
        ...withStaleContainer(settled(agent, 'error')),
        failure: 'deployment',
        message: `Deployment failed${event.data.step === null ? '' : ` at ${event.data.step}`}: ${event.data.reason}`,
        deployment: { ...deployment, status: 'failed' },
      };
    case 'DeploymentCanceled':
      return { ...withStaleContainer(agent), deployment: { ...deployment, status: 'canceled' } };
    default:
      event satisfies never;
      return agent;
  }
}

/** Marks the container of the failed deployment as outdated, even if it is healthy, because it does not run the release. */
function withStaleContainer(agent: Agent): Agent {
  return { ...agent, candidate: null, generation: agent.generation + 1 };
}

function evolveLifecycle(agent: Agent, event: LifecycleEvent): Agent {
  switch (event.type) {
    case 'AgentStartRequested':
      return Object.assign(inTransition(agent, 'starting', event.data.deadline_at, 'Starting.'), {
        generation: event.data.generation,
        crashes: 0,
      });
    case 'AgentRestartRequested':
      return Object.assign(inTransition(agent, 'restarting', event.data.deadline_at, 'Restarting.'), {
        generation: event.data.generation,
        crashes: 0,
      });
    case 'AgentStarted':
      return running(agent, event.data.started_at);
    case 'AgentWoke':
      return running(agent, event.data.started_at);
    case 'AgentStopRequested':
      return inTransition(agent, 'stopping', event.data.deadline_at, 'Stopping.');
    case 'AgentStopped':
      return settled(agent, 'stopped', 'Stopped.');
    case 'AgentSleepRequested': {
      // Callers see `sleeping` while a sleep is deepened.
      if (agent.status === 'sleeping') return { ...agent, wantedSleep: event.data.depth };
      return {
        ...inTransition(agent, 'stopping', event.data.deadline_at, 'Going to sleep.'),
        wantedSleep: event.data.depth,
      };
    }
    case 'AgentSlept': {
      const { depth, slept_at } = event.data;
      const sleptAt = agent.sleptAt ?? slept_at;
      const wantedSleep = depth === 'stopped' ? depth : (agent.wantedSleep ?? depth);
      return {
        ...settled(agent, 'sleeping'),
        wantedSleep,
        sleepDepth: depth,
        sleptAt,
        message: 'Sleeping.',
      };
    }
    case 'AgentWakeRequested':
      return {
        ...inTransition(agent, 'waking', event.data.deadline_at, 'Waking.'),
        sleepDepth: agent.sleepDepth,
      };
    case 'AgentFailed':
      return { ...settled(agent, 'error'), failure: event.data.kind, message: event.data.reason };
    case 'ContainerExited':
      return afterExit(agent, event.data);
    default:
      event satisfies never;
      return agent;
  }
}
