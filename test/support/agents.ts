import type { Agent } from '../../src/features/agents/aggregate/agent-state.rules.ts';
import { CRASHES_MAX } from '../../src/sandboxes/lifecycle/crashes.rules.ts';
import { agentDecider, type AgentCommand } from '../../src/features/agents/aggregate/agents.decider.ts';
import type { AgentEvent, AgentSettings } from '../../src/features/agents/aggregate/agents.events.ts';
import { fold, given, NOON } from './decider-spec.ts';

/** For each status of an agent: the events that lead to it, and the commands that its owner can send then. */

export const accountId = 'account-1';
export const deadlineAt = '2026-03-01T12:05:00.000Z';
export const startedAt = NOON.toISOString();
export const later = (seconds: number) => new Date(NOON.getTime() + seconds * 1000);

export const settings: AgentSettings = {
  name: 'helper',
  description: null,
  image: 'docker',
  image_name: 'nginx:1',
  repo_url: null,
  branch: 'main',
  template_id: null,
  serverless: true,
  idle_ttl_seconds: 300,
};

const deployment = (id: string) => ({
  deploymentId: id,
  source: 'docker' as const,
  imageName: 'nginx:1',
  repoUrl: null,
  branch: null,
  templateId: null,
});

export const provisioned: AgentEvent = { type: 'AgentProvisioned', data: { ...settings, account_id: accountId, external_id: 'user-7' } };
export const requested = (id: string, generation: number): AgentEvent => ({
  type: 'DeploymentRequested',
  data: {
    deployment_id: id,
    generation,
    source: 'docker',
    image_name: 'nginx:1',
    repo_url: null,
    branch: null,
    template_id: null,
    deadline_at: deadlineAt,
  },
});
export const imageResolved = (id: string): AgentEvent => ({
  type: 'ImageResolved',
  data: { deployment_id: id, image: 'nginx@sha256:1', image_name: 'nginx:1', command: ['nginx'], commit_sha: null },
});
export const releaseResolved = (id: string): AgentEvent => ({
  type: 'ImageResolved',
  data: {
    deployment_id: id,
    image: 'nginx@sha256:1',
    image_name: 'nginx:1',
    command: ['nginx'],
    commit_sha: null,
    release_command: ['migrate'],
  },
});
export const releaseBegun = (id: string, generation: number): AgentEvent => ({
  type: 'ReleaseCommandBegun',
  data: { deployment_id: id, generation },
});
export const succeeded = (id: string): AgentEvent => ({ type: 'DeploymentSucceeded', data: { deployment_id: id, started_at: startedAt } });
export const stopRequested: AgentEvent = { type: 'AgentStopRequested', data: { deadline_at: deadlineAt } };
export const sleepRequested = (depth: 'frozen' | 'stopped', reason: 'requested' | 'deep' = 'requested'): AgentEvent => ({
  type: 'AgentSleepRequested',
  data: { depth, reason, deadline_at: deadlineAt },
});
export const slept = (depth: 'frozen' | 'stopped'): AgentEvent => ({ type: 'AgentSlept', data: { depth, slept_at: startedAt } });
export const wakeRequested = (trigger: string): AgentEvent => ({ type: 'AgentWakeRequested', data: { trigger, deadline_at: deadlineAt } });
export const exited = (crashes: number, generation: number, restart: { generation: number; at: string } | null): AgentEvent => ({
  type: 'ContainerExited',
  data: {
    generation,
    exit_code: 1,
    oom: false,
    cause: 'exited',
    crashes,
    restart: restart && { ...restart, deadline_at: deadlineAt },
  },
});

export const created = [provisioned];
export const deploying = [
  ...created,
  requested('d1', 1),
  { type: 'DeploymentStarted', data: { deployment_id: 'd1' } } as AgentEvent,
  imageResolved('d1'),
];
/** A deployment of a template that allows 200 s for the start of a container. */
export const deployingPatiently: AgentEvent[] = [
  ...created,
  requested('d1', 1),
  { type: 'DeploymentStarted', data: { deployment_id: 'd1' } },
  { type: 'ImageResolved', data: { ...imageResolved('d1').data, start_timeout_seconds: 200 } } as AgentEvent,
  { type: 'ContainerCreated', data: { deployment_id: 'd1', generation: 1 } },
];
export const active = [...deploying, succeeded('d1')];
export const stopping = [...active, stopRequested];
export const stopped: AgentEvent[] = [...stopping, { type: 'AgentStopped', data: {} }];
export const fallingAsleep = [...active, sleepRequested('frozen')];
export const sleeping = [...fallingAsleep, slept('frozen')];
export const waking = [...sleeping, wakeRequested('chat')];
export const starting: AgentEvent[] = [...stopped, { type: 'AgentStartRequested', data: { generation: 2, deadline_at: deadlineAt } }];
export const restarting: AgentEvent[] = [...active, { type: 'AgentRestartRequested', data: { generation: 2, deadline_at: deadlineAt } }];
export const failed = (id: string): AgentEvent => ({
  type: 'DeploymentFailed',
  data: { deployment_id: id, step: 'container', kind: 'deployment', reason: 'no' },
});
export const failedDeployment: AgentEvent[] = [...deploying, failed('d1')];
export const crashed = [...active, exited(CRASHES_MAX, 1, null)];
export const deleting: AgentEvent[] = [...active, { type: 'AgentDeletionRequested', data: {} }];
export const deleted: AgentEvent[] = [...deleting, { type: 'AgentDeleted', data: {} }];

export const everyStatus = {
  created,
  deploying,
  active,
  stopping,
  stopped,
  sleeping,
  waking,
  starting,
  restarting,
  error: crashed,
};

export const agent = (...events: AgentEvent[]) => given(agentDecider, ...events);
export const stateAfter = (...events: AgentEvent[]) => fold(agentDecider, events) as Agent;
/** The start timeouts of the installation that result in `deadlineAt` for a start, a wake or a restart at noon. */
export const startTimes = { startTimeoutSeconds: 270 };
export const restartTimes = { startTimeoutSeconds: 150 };
const asked = { StartAgent: startTimes, StopAgent: { deadlineAt }, RestartAgent: restartTimes };
export const ask = (type: keyof typeof asked) => ({ type, accountId, ...asked[type] }) as AgentCommand;
export const sleep = (depth: 'frozen' | 'stopped'): AgentCommand => ({
  type: 'SleepAgent',
  accountId,
  depth,
  reason: 'requested',
  deadlineAt,
});
export const wake: AgentCommand = { type: 'WakeAgent', accountId, trigger: 'chat', ...startTimes };
export const deploy = (id: string): AgentCommand => ({ type: 'DeployAgent', accountId, deadlineAt, ...deployment(id) });
export const exit = (generation: number): AgentCommand => ({
  type: 'RecordExit',
  generation,
  exitCode: 1,
  oom: false,
  cause: 'exited',
  ...restartTimes,
});
