import type { RunSettings } from '../../../builds/run-settings/run-settings.ts';
import type { AgentEgress } from '../../../kernel/network/allow-list.ts';
import type { ProtocolName } from '../../../agent-protocol/protocol-names.ts';
import type { SleepDepth, SleepReason } from '../../../sandboxes/lifecycle/sandbox.rules.ts';
import { defineEvent, type EventsOf, type JsonObject } from '../../../eventsourcing/event-store/event-definition.ts';

export type ImageChoice = 'openclaw' | 'crewai' | 'langgraph' | 'docker' | 'custom' | 'auto';
export type DeploymentSource = 'docker' | 'github' | 'template';
/**
 * The reason why an agent is in `error`: its deployment failed, its container keeps exiting, it was not ready in time, the engine was
 * unavailable, or its volume is full.
 */
export type FailureKind = 'deployment' | 'crash' | 'timeout' | 'runtime' | 'volume';
/** The steps of a deployment: resolving its image, creating its container, starting that, and running its scripts. */
export type DeploymentStep = 'image' | 'container' | 'start' | 'scripts';
/** The reason why a deployment failed: its source, its deadline, or the engine. */
export type DeploymentFailureKind = Exclude<FailureKind, 'crash' | 'volume'>;

/** The source that an agent is deployed from. A field that the request omitted is null. */
export type AgentSourceFields = {
  image: ImageChoice;
  image_name: string | null;
  repo_url: string | null;
  branch: string;
  template_id: string | null;
};

/** The run settings apply from the next deployment on. */
export type AgentSettings = AgentSourceFields &
  RunSettings & {
    name: string;
    description: string | null;
    serverless: boolean;
    /** The idle time in seconds; 0 means that the agent never sleeps. */
    idle_ttl_seconds: number;
    /** The part of the network that the agent may reach; absent or null means all that the operator allows agents to reach. */
    egress?: AgentEgress | null;
    /** True if anybody may reach the agent's port through the service; absent means false. */
    public?: boolean;
    /** The value is false if the agent accepts no webhook without its token; absent means true. */
    tokenless_webhooks?: boolean;
  };

/**
 * The run settings of a release that were said for its deployment, by the agent's settings, by its repository, or by the one port that its
 * image exposes. What is absent is as the template says, or the default.
 */
export type ReleaseRun = {
  protocol?: ProtocolName;
  port?: number;
  health_path?: string;
  memory_mb?: number;
  cpus?: number;
  webhook_handshake?: string;
};

/** The image of an earlier deployment, pinned by digest or id, which a rollback brings back with the run settings of that time. */
export type EarlierImage = {
  deployment_id: string;
  image: string;
  image_name: string;
  command: string[];
  commit_sha: string | null;
  /** Absent if none was said. */
  run?: ReleaseRun;
  /** Absent means that of the template, or the installation's. */
  start_timeout_seconds?: number;
};

/** Upgrades version 1, whose `step` was a step (`image`, `start`, `ready`) or a reason (`deadline`, `engine`). */
function deploymentFailed1({ step, ...others }: JsonObject): JsonObject {
  switch (step) {
    case 'deadline':
      return { ...others, step: null, kind: 'timeout' };
    case 'engine':
      return { ...others, step: null, kind: 'runtime' };
    case 'ready':
      return { ...others, step: 'start', kind: 'timeout' };
    default:
      return { ...others, step: step === 'start' ? 'start' : 'image', kind: 'deployment' };
  }
}

const reasonText: Record<SleepReason, string> = {
  requested: '',
  idle: ', because it was not used',
  deep: ', because it slept for long',
  memory: ', because memory is short',
};
const depthText = (depth: SleepDepth) => (depth === 'frozen' ? 'its memory kept' : 'its container stopped');

/** Events about an agent's creation, settings and deletion. */
const existenceEvents = {
  AgentProvisioned: defineEvent<AgentSettings & { account_id: string; external_id: string | null }>()(
    'AgentProvisioned',
    (agent) => `Created the agent "${agent.name}"`,
  ),
  AgentConfigured: defineEvent<{ changes: Partial<AgentSettings> }>()(
    'AgentConfigured',
    ({ changes }) => `Changed ${Object.keys(changes).join(', ')}`,
  ),
  AgentDeletionRequested: defineEvent<Record<string, never>>()('AgentDeletionRequested', () => 'Asked for the agent to be deleted'),
  AgentDeleted: defineEvent<Record<string, never>>()('AgentDeleted', () => 'Deleted the agent: container, volume and data key are gone'),
};

/** Events about a deployment, from its request to its outcome. */
export const deploymentProgressEvents = {
  DeploymentRequested: defineEvent<{
    deployment_id: string;
    /** The generation of the container that the deployment creates. */
    generation: number;
    source: DeploymentSource;
    image_name: string | null;
    repo_url: string | null;
    branch: string | null;
    template_id: string | null;
    deadline_at: string;
    /** The image that a rollback brings back; absent in every other deployment. */
    earlier?: EarlierImage;
  }>()('DeploymentRequested', ({ source, image_name, repo_url, template_id, earlier }) =>
    earlier === undefined
      ? `Asked for a deployment of ${image_name ?? repo_url ?? template_id ?? source}`
      : `Asked for a rollback to ${earlier.image_name}`,
  ),
  DeploymentStarted: defineEvent<{ deployment_id: string }>()('DeploymentStarted', () => 'Began the deployment'),
  ImageResolved: defineEvent<{
    deployment_id: string;
    /** The image, pinned by digest or id. */
    image: string;
    image_name: string;
    command: string[];
    commit_sha: string | null;
    /** The framework that was detected in the repository, whose template defines how the agent is run; absent in every other deployment. */
    framework?: string;
    /** The time in seconds within which a container must be ready, if the agent or its template says one; absent means the installation's. */
    start_timeout_seconds?: number;
    /** Absent if nothing was said. */
    run?: ReleaseRun;
  }>()('ImageResolved', ({ image_name }) => `Had the image ${image_name} ready`),
  ContainerCreated: defineEvent<{ deployment_id: string; generation: number }>()(
    'ContainerCreated',
    ({ generation }) => `Made container number ${generation}`,
  ),
  /** The container is ready, and the custom scripts are about to run in it. They never run twice in one container. */
  DeploymentScriptsBegun: defineEvent<{ deployment_id: string; generation: number }>()(
    'DeploymentScriptsBegun',
    () => 'Began to run the custom scripts',
  ),
  DeploymentSucceeded: defineEvent<{ deployment_id: string; started_at: string }>()(
    'DeploymentSucceeded',
    () => 'Finished the deployment: the agent is active',
  ),
  DeploymentFailed: defineEvent<{
    deployment_id: string;
    /** The step that failed; null if it was not recorded, because version 1 gave `deadline` or `engine` instead. */
    step: DeploymentStep | null;
    kind: DeploymentFailureKind;
    reason: string;
  }>()('DeploymentFailed', ({ step, reason }) => `The deployment failed${step === null ? '' : ` at "${step}"`}: ${reason}`, 2, {
    1: deploymentFailed1,
  }),
  DeploymentCanceled: defineEvent<{ deployment_id: string; reason: string }>()(
    'DeploymentCanceled',
    ({ reason }) => `Canceled the deployment: ${reason}`,
  ),
};

/** Events about the container of a deployed agent: it starts, stops, sleeps, wakes and fails. */
export const lifecycleEvents = {
  AgentStartRequested: defineEvent<{ generation: number; deadline_at: string }>()('AgentStartRequested', () => 'Asked the agent to start'),
  AgentStarted: defineEvent<{ generation: number; started_at: string }>()('AgentStarted', () => 'The agent started and is ready'),
  AgentStopRequested: defineEvent<{ deadline_at: string }>()('AgentStopRequested', () => 'Asked the agent to stop'),
  AgentStopped: defineEvent<Record<string, never>>()('AgentStopped', () => 'The agent stopped'),
  AgentRestartRequested: defineEvent<{ generation: number; deadline_at: string }>()(
    'AgentRestartRequested',
    () => 'Asked the agent to restart',
  ),
  AgentSleepRequested: defineEvent<{
    depth: SleepDepth;
    reason: SleepReason;
    deadline_at: string;
  }>()('AgentSleepRequested', ({ depth, reason }) => `Asked the agent to sleep, ${depthText(depth)}${reasonText[reason]}`),
  AgentSlept: defineEvent<{ depth: SleepDepth; slept_at: string }>()('AgentSlept', ({ depth }) => `The agent sleeps, ${depthText(depth)}`),
  AgentWakeRequested: defineEvent<{ trigger: string; deadline_at: string }>()(
    'AgentWakeRequested',
    ({ trigger }) => `Asked the agent to wake (${trigger})`,
  ),
  AgentWoke: defineEvent<{ after: SleepDepth; started_at: string }>()('AgentWoke', ({ after }) => `The agent woke (it had been ${after})`),
  AgentFailed: defineEvent<{ during: string; kind: FailureKind; reason: string }>()(
    'AgentFailed',
    ({ during, reason }) => `The agent failed while ${during}: ${reason}`,
  ),
  ContainerExited: defineEvent<{
    generation: number;
    exit_code: number | null;
    oom: boolean;
    /** `removed` means that the container does not exist any more. */
    cause: 'exited' | 'removed';
    /** The number of consecutive exits, including this one. */
    crashes: number;
    /** The generation that replaces the container and when it may start; null if it crashed too often, which puts the agent in `error`. */
    restart: { generation: number; at: string; deadline_at: string } | null;
  }>()('ContainerExited', ({ cause, exit_code, oom, restart }) => {
    const what =
      cause === 'removed' ? 'The container was removed from outside' : `The container ended with exit code ${exit_code ?? 'unknown'}`;
    return `${what}${oom ? ', out of memory' : ''}${restart ? '; it is made again' : '; it keeps crashing and is not started again'}`;
  }),
};

export const agentEvents = { ...existenceEvents, ...deploymentProgressEvents, ...lifecycleEvents };

export type AgentEvent = EventsOf<typeof agentEvents>;
export type DeploymentProgressEvent = EventsOf<typeof deploymentProgressEvents>;
export type LifecycleEvent = EventsOf<typeof lifecycleEvents>;
