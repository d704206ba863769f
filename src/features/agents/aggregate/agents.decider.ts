import type { Decider } from '../../../eventsourcing/event-store/event-definition.ts';
import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import { bringUpSeconds, deadlineIn, restartSeconds } from '../../../sandboxes/lifecycle/deadlines.rules.ts';
import type { SleepDepth, SleepReason } from '../../../sandboxes/lifecycle/sandbox.rules.ts';
import { decideRecord, isDeploying, type AgentRecord } from './agent-records.rules.ts';
import { evolve, initialState, isAsleep, type Agent, type AgentState } from './agent-state.rules.ts';
import { agentNotFound, notRunning } from './agents.errors.ts';
import { startTimeoutOf, type StartTimes } from './deadlines.rules.ts';
import type { AgentEvent, AgentSettings, DeploymentSource, EarlierImage } from './agents.events.ts';

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
  /** The image that a rollback brings back; absent in every other deployment. */
  earlier?: EarlierImage;
}

/**
 * The commands on an agent. A caller's command contains the caller's account, so that another account's agent is answered like a missing
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
  /** The agent then restarts with its earlier release; one without a release stops, by `stopBy`. */
  | ({ type: 'CancelDeployment'; accountId: string; deploymentId: string; stopBy: string } & StartTimes)
  | ({ type: 'StartAgent'; accountId: string } & StartTimes)
  | ({ type: 'StopAgent'; accountId: string } & Timed)
  | ({ type: 'RestartAgent'; accountId: string } & StartTimes)
  | ({ type: 'SleepAgent'; accountId: string; depth: SleepDepth; reason: SleepReason } & Timed)
  | ({ type: 'WakeAgent'; accountId: string; trigger: string } & StartTimes)
  | { type: 'DeleteAgent'; accountId: string }
  | AgentRecord;

/** Returns the agent if the account may see it: until it is deleted. Throws `agent_not_found`, also for another account's agent. */
export function requireVisible(agent: AgentState, accountId: string): Agent {
  if (agent === null || agent.accountId !== accountId || agent.status === 'deleted') throw agentNotFound();
  return agent;
}

/** Returns the agent if the account may change it: until its deletion is requested. Throws `agent_not_found`. */
export function requireOwned(agent: AgentState, accountId: string): Agent {
  if (agent?.status === 'deleting') throw agentNotFound();
  return requireVisible(agent, accountId);
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
      return configure(requireOwned(agent, command.accountId), command.changes);
    case 'DeployAgent':
      return deploy(requireOwned(agent, command.accountId), command);
    case 'CancelDeployment':
      return cancel(requireOwned(agent, command.accountId), command, now);
    case 'StartAgent':
      return start(requireOwned(agent, command.accountId), command, now);
    case 'StopAgent':
      return stop(requireOwned(agent, command.accountId), command.deadlineAt);
    case 'RestartAgent':
      return restart(requireOwned(agent, command.accountId), command, now);
    case 'SleepAgent':
      return sleep(requireOwned(agent, command.accountId), command);
    case 'WakeAgent':
      return wake(requireOwned(agent, command.accountId), command.trigger, command, now);
    case 'DeleteAgent':
      return remove(requireVisible(agent, command.accountId));
    default:
      return agent === null ? [] : decideRecord(command, agent, now);
  }
}

function configure(agent: Agent, changes: Partial<AgentSettings>): AgentEvent[] {
  const current = agent.settings as Record<string, unknown>;
  const changed = Object.entries(changes).filter(
    ([field, value]) => value !== undefined && JSON.stringify(current[field] ?? null) !== JSON.stringify(value),
  );
  return changed.length === 0 ? [] : [{ type: 'AgentConfigured', data: { changes: Object.fromEntries(changed) } }];
}

function deploy(agent: Agent, command: DeploymentRequest & Timed): AgentEvent[] {
  // A caller that did not get the response repeats the request with the same id, so the deployment may have finished already.
  if (agent.deployment?.id === command.deploymentId) return [];
  if (agent.status === 'deploying') {
    throw new ProblemError('deploy_in_progress', 'A deployment of this agent is in progress.', {
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
        ...(command.earlier === undefined ? {} : { earlier: command.earlier }),
      },
    },
  ];
}

/** Cancels the deployment in progress. The agent returns to its last release, or stops if it has none. */
function cancel(agent: Agent, command: Extract<AgentCommand, { type: 'CancelDeployment' }>, now: Date): AgentEvent[] {
  const { deploymentId, stopBy } = command;
  if (agent.deployment?.id === deploymentId && agent.deployment.status === 'canceled') return [];
  if (!isDeploying(agent, deploymentId)) throw new ProblemError('invalid_state', 'That deployment has ended.');
  const next: AgentEvent =
    agent.release === null
      ? { type: 'AgentStopRequested', data: { deadline_at: stopBy } }
      : // The cancellation itself takes up one generation.
        restartRequested(agent, agent.generation + 2, command, now);
  return [canceled(agent, 'a caller canceled it'), next];
}

function neverDeployed(action: string): ProblemError {
  return new ProblemError('invalid_state', `The agent has no successful deployment to ${action}; deploy it first.`);
}

function start(agent: Agent, times: StartTimes, now: Date): AgentEvent[] {
  if (isAsleep(agent)) return wake(agent, 'start', times, now);
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
          data: { generation: agent.generation + 1, deadline_at: deadlineIn(bringUpSeconds(startTimeoutOf(agent.release, times)), now) },
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

function restart(agent: Agent, times: StartTimes, now: Date): AgentEvent[] {
  if (agent.status === 'deploying') throw new ProblemError('deploy_in_progress', 'A deployment of this agent is in progress.');
  if (agent.release === null) throw neverDeployed('restart');
  // A container that is still starting is not restarted once more. One that waits in its backoff is restarted immediately.
  if (agent.status === 'restarting' && agent.restartAt === null) return [];
  return [restartRequested(agent, agent.generation + 1, times, now)];
}

function restartRequested(agent: Agent, generation: number, times: StartTimes, now: Date): AgentEvent {
  return {
    type: 'AgentRestartRequested',
    data: { generation, deadline_at: deadlineIn(restartSeconds(startTimeoutOf(agent.release, times)), now) },
  };
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
      throw new ProblemError('deploy_in_progress', 'A deployment of this agent is in progress.');
    default:
      break;
  }
  throw new ProblemError('invalid_state', `An agent that is ${agent.status} can't be put to sleep.`);
}

function wake(agent: Agent, trigger: string, times: StartTimes, now: Date): AgentEvent[] {
  if (isAsleep(agent))
    return [
      { type: 'AgentWakeRequested', data: { trigger, deadline_at: deadlineIn(bringUpSeconds(startTimeoutOf(agent.release, times)), now) } },
    ];
  if (agent.status === 'active' || agent.status === 'starting' || agent.status === 'restarting' || agent.status === 'waking') return [];
  throw notRunning(agent.status);
}

function remove(agent: Agent): AgentEvent[] {
  if (agent.status === 'deleting') return [];
  const requested: AgentEvent = { type: 'AgentDeletionRequested', data: {} };
  return agent.status === 'deploying' ? [canceled(agent, 'the agent was deleted'), requested] : [requested];
}

export const agentDecider: Decider<AgentState, AgentCommand, AgentEvent> = {
  initialState,
  decide,
  evolve,
  snapshot: { name: 'agent', version: 7, subject: (_, id) => id },
};
