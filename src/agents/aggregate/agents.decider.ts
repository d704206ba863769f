import type { Decider } from '../../platform/event-store/event-definition.ts';
import { Refusal } from '../../platform/errors/refusal.ts';
import {
  CRASHES_MAX,
  deploymentStep,
  evolve,
  initialState,
  isAsleep,
  isInTransit,
  type Agent,
  type AgentState,
} from './agent-state.decider.ts';
import type {
  AgentEvent,
  AgentSettings,
  DeploymentFailureKind,
  DeploymentSource,
  FailureKind,
  SleepDepth,
  SleepReason,
} from './agents.events.ts';

/** The time in seconds for which a container must run until its earlier crashes are forgotten. */
const STEADY_AFTER_SECONDS = 600;

interface Timed {
  /** The deadline of the transition. */
  deadlineAt: string;
}

export interface DeploymentRequest {
  deploymentId: string;
  source: DeploymentSource;
  imageName: string | null;
  repoUrl: string | null;
  branch: string | null;
  templateId: string | null;
}

/**
 * The commands on an agent. A caller's command carries the caller's account, so that another account's agent can't be told from a missing
 * one.
 */
export type AgentCommand =
  | {
      type: 'ProvisionAgent';
      accountId: string;
      externalId: string | null;
      settings: AgentSettings;
    }
  | { type: 'ConfigureAgent'; accountId: string; changes: Partial<AgentSettings> }
  | ({ type: 'DeployAgent'; accountId: string } & DeploymentRequest & Timed)
  | ({ type: 'StartAgent'; accountId: string } & Timed)
  | ({ type: 'StopAgent'; accountId: string } & Timed)
  | ({ type: 'RestartAgent'; accountId: string } & Timed)
  | ({ type: 'SleepAgent'; accountId: string; depth: SleepDepth; reason: SleepReason } & Timed)
  | ({ type: 'WakeAgent'; accountId: string; trigger: string } & Timed)
  | { type: 'DeleteAgent'; accountId: string }
  | AgentRecord;

/** The observations of the deployment saga. A late or repeated record changes nothing. */
export type AgentRecord =
  | { type: 'RecordDeploymentStarted'; deploymentId: string }
  | {
      type: 'RecordImage';
      deploymentId: string;
      image: string;
      imageName: string;
      command: string[];
      commitSha: string | null;
    }
  | { type: 'RecordContainerCreated'; deploymentId: string; generation: number }
  | { type: 'RecordDeploymentFailure'; deploymentId: string; kind: DeploymentFailureKind; reason: string }
  /** The container of that generation runs and is ready, so the transition in progress has succeeded. */
  | { type: 'RecordReady'; generation: number }
  | { type: 'RecordStopped' }
  | { type: 'RecordSlept'; depth: SleepDepth }
  | {
      type: 'RecordExit';
      generation: number;
      exitCode: number | null;
      oom: boolean;
      cause: 'exited' | 'removed';
      deadlineAt: string;
    }
  | { type: 'RecordFailure'; kind: Exclude<FailureKind, 'volume'>; reason: string }
  /** The agent's volume holds more than it may, so the agent has to stop. */
  | { type: 'RecordVolumeFull'; reason: string }
  | { type: 'RecordDeleted' };

/**
 * Returns the agent if the account may see it, which is until it is deleted. Throws `agent_not_found`, for another account's agent as for a
 * missing one.
 */
export function visible(agent: AgentState, accountId: string): Agent {
  if (agent === null || agent.accountId !== accountId || agent.status === 'deleted') throw agentNotFound();
  return agent;
}

/** Returns the agent if the account may change it, which is until its deletion is requested. Throws `agent_not_found`. */
export function owned(agent: AgentState, accountId: string): Agent {
  if (agent?.status === 'deleting') throw agentNotFound();
  return visible(agent, accountId);
}

export function agentNotFound(): Refusal {
  return new Refusal('agent_not_found', 'There is no such agent.');
}

function decide(command: AgentCommand, agent: AgentState, now: Date): AgentEvent[] {
  switch (command.type) {
    case 'ProvisionAgent': {
      if (agent !== null) return [];
      const { accountId, externalId, settings } = command;
      return [
        {
          type: 'AgentProvisioned',
          data: { ...settings, account_id: accountId, external_id: externalId },
        },
      ];
    }
    case 'ConfigureAgent':
      return configure(owned(agent, command.accountId), command.changes);
    case 'DeployAgent':
      return deploy(owned(agent, command.accountId), command);
    case 'StartAgent':
      return start(owned(agent, command.accountId), command.deadlineAt);
    case 'StopAgent':
      return stop(owned(agent, command.accountId), command.deadlineAt);
    case 'RestartAgent':
      return restart(owned(agent, command.accountId), command.deadlineAt);
    case 'SleepAgent':
      return sleep(owned(agent, command.accountId), command);
    case 'WakeAgent':
      return wake(owned(agent, command.accountId), command.trigger, command.deadlineAt);
    case 'DeleteAgent':
      return remove(visible(agent, command.accountId));
    default:
      return agent === null ? [] : record(command, agent, now);
  }
}

function configure(agent: Agent, changes: Partial<AgentSettings>): AgentEvent[] {
  const current = agent.settings as Record<string, unknown>;
  const changed = Object.entries(changes).filter(
    ([field, value]) => value !== undefined && JSON.stringify(current[field]) !== JSON.stringify(value),
  );
  return changed.length === 0 ? [] : [{ type: 'AgentConfigured', data: { changes: Object.fromEntries(changed) } }];
}

function deploy(agent: Agent, command: DeploymentRequest & Timed): AgentEvent[] {
  // A caller that lost the response repeats the request with the same id, so this may be a finished deployment.
  if (agent.deployment?.id === command.deploymentId) return [];
  if (agent.status === 'deploying') {
    throw new Refusal('deploy_in_progress', 'A deployment of this agent is in progress.', {
      members: { deployment_id: agent.deployment?.id ?? null },
    });
  }
  return [
    {
      type: 'DeploymentRequested',
      data: {
        deployment_id: command.deploymentId,
        generation: agent.generation + 1,
        source: command.source,
        image_name: command.imageName,
        repo_url: command.repoUrl,
        branch: command.branch,
        template_id: command.templateId,
        deadline_at: command.deadlineAt,
      },
    },
  ];
}

function neverDeployed(action: string): Refusal {
  return new Refusal('invalid_state', `The agent has no successful deployment to ${action}; deploy it first.`);
}

function start(agent: Agent, deadlineAt: string): AgentEvent[] {
  if (isAsleep(agent)) return wake(agent, 'start', deadlineAt);
  switch (agent.status) {
    case 'active':
    case 'starting':
    case 'restarting':
    case 'waking':
    case 'deploying':
      return [];
    default:
      if (agent.release === null) throw neverDeployed('start');
      return [
        {
          type: 'AgentStartRequested',
          data: { generation: agent.generation + 1, deadline_at: deadlineAt },
        },
      ];
  }
}

function stop(agent: Agent, deadlineAt: string): AgentEvent[] {
  if (agent.status === 'created' || agent.status === 'stopped') return [];
  if (agent.status === 'stopping' && agent.wantedSleep === null) return [];
  const stopRequested: AgentEvent = {
    type: 'AgentStopRequested',
    data: { deadline_at: deadlineAt },
  };
  return agent.status === 'deploying' ? [canceled(agent, 'the agent was stopped'), stopRequested] : [stopRequested];
}

function canceled(agent: Agent, reason: string): AgentEvent {
  return {
    type: 'DeploymentCanceled',
    data: { deployment_id: agent.deployment?.id ?? '', reason },
  };
}

function restart(agent: Agent, deadlineAt: string): AgentEvent[] {
  if (agent.status === 'deploying') throw new Refusal('deploy_in_progress', 'A deployment of this agent is in progress.');
  if (agent.release === null) throw neverDeployed('restart');
  // Another restart of a container that is not up yet would gain nothing; one in its backoff is restarted at once.
  if (agent.status === 'restarting' && agent.restartAt === null) return [];
  return [
    {
      type: 'AgentRestartRequested',
      data: { generation: agent.generation + 1, deadline_at: deadlineAt },
    },
  ];
}

function sleep(agent: Agent, command: { depth: SleepDepth; reason: SleepReason } & Timed): AgentEvent[] {
  const requested: AgentEvent = {
    type: 'AgentSleepRequested',
    data: { depth: command.depth, reason: command.reason, deadline_at: command.deadlineAt },
  };
  switch (agent.status) {
    case 'active':
    case 'starting':
    case 'restarting':
    case 'waking':
      return [requested];
    case 'sleeping':
      return command.depth === 'stopped' && agent.wantedSleep === 'frozen' ? [requested] : [];
    case 'stopping':
      if (agent.wantedSleep !== null) return [];
      break;
    case 'deploying':
      throw new Refusal('deploy_in_progress', 'A deployment of this agent is in progress.');
    default:
      break;
  }
  throw new Refusal('invalid_state', `An agent that is ${agent.status} can't be put to sleep.`);
}

function wake(agent: Agent, trigger: string, deadlineAt: string): AgentEvent[] {
  if (isAsleep(agent)) return [{ type: 'AgentWakeRequested', data: { trigger, deadline_at: deadlineAt } }];
  if (agent.status === 'active' || agent.status === 'starting' || agent.status === 'restarting' || agent.status === 'waking') return [];
  throw new Refusal('agent_unavailable', `The agent is not running (${agent.status}).`, {
    members: { agent_status: agent.status },
  });
}

function remove(agent: Agent): AgentEvent[] {
  if (agent.status === 'deleting') return [];
  const requested: AgentEvent = { type: 'AgentDeletionRequested', data: {} };
  return agent.status === 'deploying' ? [canceled(agent, 'the agent was deleted'), requested] : [requested];
}

function record(command: AgentRecord, agent: Agent, now: Date): AgentEvent[] {
  switch (command.type) {
    case 'RecordDeploymentStarted':
      return deploying(agent, command.deploymentId) && agent.deployment?.status === 'queued'
        ? [{ type: 'DeploymentStarted', data: { deployment_id: command.deploymentId } }]
        : [];
    case 'RecordImage': {
      if (!deploying(agent, command.deploymentId) || agent.candidate !== null) return [];
      const { image, imageName, deploymentId, commitSha } = command;
      return [
        {
          type: 'ImageResolved',
          data: {
            deployment_id: deploymentId,
            image,
            image_name: imageName,
            command: command.command,
            commit_sha: commitSha,
          },
        },
      ];
    }
    case 'RecordContainerCreated':
      return deploying(agent, command.deploymentId) && agent.deployment?.status === 'building' && agent.generation === command.generation
        ? [
            {
              type: 'ContainerCreated',
              data: { deployment_id: command.deploymentId, generation: command.generation },
            },
          ]
        : [];
    case 'RecordDeploymentFailure':
      return deploying(agent, command.deploymentId) ? [deploymentFailed(agent, command.kind, command.reason)] : [];
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

function deploying(agent: Agent, deploymentId: string): boolean {
  return agent.status === 'deploying' && agent.deployment?.id === deploymentId;
}

function deploymentFailed(agent: Agent, kind: DeploymentFailureKind, reason: string): AgentEvent {
  return { type: 'DeploymentFailed', data: { deployment_id: agent.deployment?.id ?? '', step: deploymentStep(agent), kind, reason } };
}

function recordReady(agent: Agent, now: Date): AgentEvent[] {
  const started_at = now.toISOString();
  switch (agent.status) {
    case 'deploying':
      if (agent.candidate === null || agent.deployment === null) return [];
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
  const steady = agent.activeSince !== null && now.getTime() - Date.parse(agent.activeSince) >= STEADY_AFTER_SECONDS * 1000;
  const crashes = (steady ? 0 : agent.crashes) + 1;
  // The first restart is immediate; the next ones wait 2, 4 and 8 s.
  const delaySeconds = crashes === 1 ? 0 : 2 ** (crashes - 1);
  const at = new Date(now.getTime() + delaySeconds * 1000).toISOString();
  return [
    {
      type: 'ContainerExited',
      data: {
        generation: exit.generation,
        exit_code: exit.exitCode,
        oom: exit.oom,
        cause: exit.cause,
        crashes,
        restart: crashes >= CRASHES_MAX ? null : { generation: agent.generation + 1, at, deadline_at: exit.deadlineAt },
      },
    },
  ];
}

function recordFailure(agent: Agent, kind: Exclude<FailureKind, 'volume'>, reason: string): AgentEvent[] {
  if (agent.status === 'deploying') return [deploymentFailed(agent, kind === 'crash' ? 'deployment' : kind, reason)];
  if (!isInTransit(agent)) return [];
  return [{ type: 'AgentFailed', data: { during: agent.status, kind, reason } }];
}

/** An agent whose container is stopped, or is going to be, can't write any more. */
function recordVolumeFull(agent: Agent, reason: string): AgentEvent[] {
  if (agent.status === 'deploying') return [deploymentFailed(agent, 'deployment', reason)];
  const writes = ['active', 'starting', 'restarting', 'waking', 'sleeping'].includes(agent.status) || isAsleep(agent);
  const stillRuns = agent.status === 'error' && (agent.failure === 'timeout' || agent.failure === 'runtime');
  return writes || stillRuns ? [{ type: 'AgentFailed', data: { during: agent.status, kind: 'volume', reason } }] : [];
}

export const agentDecider: Decider<AgentState, AgentCommand, AgentEvent> = {
  initialState,
  decide,
  evolve,
  snapshot: { name: 'agent', version: 1, subject: (_, id) => id },
};
