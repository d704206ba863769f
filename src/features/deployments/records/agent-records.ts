import { Injectable } from '@nestjs/common';

import { beginsTransition, transitionDeadlines, type Agent, type AgentCommand, type AgentRecord } from '../../agents/index.ts';
import { Agents } from '../../agents/services.ts';
import { Config } from '../../../kernel/config/config.ts';
import { Variables } from '../../environment/services.ts';
import { Keyring } from '../../../crypto/keyring.ts';
import { EventStore } from '../../../eventsourcing/event-store/event-store.ts';
import { systemContext } from '../../../kernel/context/command-context.ts';
import { executeOnce, type KindRecords, type Seen } from '../../../sandboxes/index.ts';
import type { Order } from '../../../sandboxes/lifecycle/steps.rules.ts';
import { BuildLog } from './build-log.ts';
import { linesAfter } from './build-log-reading.ts';
import { secretsOfBuilds } from './build-secrets.ts';

/** Reads the desired state from an agent's stream, and records outcomes on it. */
@Injectable()
export class AgentRecords implements KindRecords<Agent> {
  constructor(
    private readonly agents: Agents,
    private readonly events: EventStore,
    private readonly keyring: Keyring,
    private readonly variables: Variables,
    private readonly config: Config,
  ) {}

  async load(agentId: string): Promise<Seen<Agent> | null> {
    const { state, revision } = await this.agents.find(agentId);
    return state === null ? null : { state, revision };
  }

  /**
   * Records an outcome. Returns false, and writes nothing, if the stream has changed since it was read, because the decision may be stale.
   */
  record(agentId: string, seen: Seen<Agent>, record: AgentRecord): Promise<boolean> {
    return this.execute(agentId, seen, record);
  }

  order(agentId: string, seen: Seen<Agent>, order: Order): Promise<boolean> {
    const { accountId } = seen.state;
    const deadlines = transitionDeadlines(this.config);
    const { startTimeoutSeconds } = this.config;
    const now = new Date();
    switch (order) {
      case 'sleep':
        return this.execute(agentId, seen, {
          type: 'SleepAgent',
          accountId,
          depth: 'frozen',
          reason: 'idle',
          deadlineAt: deadlines.sleep(now),
        });
      case 'sleep_deeper':
        return this.execute(agentId, seen, {
          type: 'SleepAgent',
          accountId,
          depth: 'stopped',
          reason: 'deep',
          deadlineAt: deadlines.sleep(now),
        });
      case 'wake':
        return this.execute(agentId, seen, { type: 'WakeAgent', accountId, trigger: 'work in flight', startTimeoutSeconds });
      case 'restart':
        return this.execute(agentId, seen, { type: 'RestartAgent', accountId, startTimeoutSeconds });
    }
  }

  async erase(agentId: string, seen: Seen<Agent>): Promise<boolean> {
    await this.keyring.shred(agentId);
    return this.record(agentId, seen, { type: 'RecordDeleted' });
  }

  async recordFull(agentId: string, accountId: string, reason: string, saga: string): Promise<void> {
    await this.agents.execute(agentId, { type: 'RecordVolumeFull', reason }, systemContext(saga, accountId));
  }

  async isClaiming(agentId: string, deploymentId: string): Promise<boolean> {
    const agent = (await this.load(agentId))?.state;
    return agent?.status === 'deploying' && agent.deployment?.id === deploymentId;
  }

  async close(agentId: string, { revision }: Seen<Agent>): Promise<void> {
    await this.agents.close(agentId, revision);
  }

  /**
   * Opens the log of a deployment. It shows none of the secret values that the container may have received, even if they were changed or
   * removed since.
   */
  async openBuildLog(agentId: string, { accountId }: Agent, deploymentId: string): Promise<BuildLog> {
    const secrets = await this.variables.secretsSince(agentId, deploymentId);
    const all = secrets === null ? null : [...secrets, ...secretsOfBuilds(this.config.buildVariables)];
    return new BuildLog(this.events, { id: deploymentId, agentId, accountId }, all);
  }

  /** Returns how many lines the deployment's build log has after the first one that is the text; null if none is. */
  linesAfter(deploymentId: string, text: string): Promise<number | null> {
    return linesAfter(this.events, deploymentId, text);
  }

  /** Returns the record that the deployment waits for a place from now on. */
  queuedNow({ deployment }: Agent, now: Date) {
    const { deployWait, deployWaitAgain } = transitionDeadlines(this.config);
    const first = deployment?.firstDeadlineAt ?? null;
    const deadlineAt = first === null ? deployWait(now) : deployWaitAgain(first);
    return { type: 'RecordDeploymentQueued', deploymentId: deployment?.id ?? '', deadlineAt, again: first !== null } as const;
  }

  /** Returns the record that the deployment, and with it its time, begins now, or goes on after another wait. */
  startedNow({ deployment }: Agent, now: Date) {
    const { deploy, deployAgain } = transitionDeadlines(this.config);
    const first = deployment?.firstDeadlineAt ?? null;
    const deadlineAt = first === null ? deploy(now) : deployAgain(first, now);
    return { type: 'RecordDeploymentStarted', deploymentId: deployment?.id ?? '', deadlineAt } as const;
  }

  private execute(agentId: string, seen: Seen<Agent>, command: AgentCommand): Promise<boolean> {
    return executeOnce({ saga: 'deployments', streams: this.agents, beginsTransition }, agentId, seen, command);
  }
}
