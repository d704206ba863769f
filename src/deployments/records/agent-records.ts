import { Injectable } from '@nestjs/common';
import { v5 as uuidv5 } from 'uuid';

import { beginsTransition, transitionDeadlines, type Agent, type AgentCommand, type AgentRecord } from '../../agents/index.ts';
import { Agents } from '../../agents/services.ts';
import { Config } from '../../platform/config/config.ts';
import { Variables } from '../../environment/services.ts';
import { Keyring } from '../../platform/crypto/keyring.ts';
import { EventStore } from '../../platform/event-store/event-store.ts';
import { systemContext } from '../../platform/context/command-context.ts';
import { Refusal } from '../../platform/errors/refusal.ts';
import { BuildLog } from './build-log.ts';
import { secretsOfBuilds } from './build-secrets.ts';

/** The number of events that are searched for the cause of a record. */
const CAUSE_WITHIN = 20;
const RECORD_NAMESPACE = 'c7d1f1c4-5b0a-4d5e-8c57-2f3f1e9b7a60';

/** The agent as of a revision of its stream. */
export interface AgentAtRevision {
  agent: Agent;
  revision: number;
}

/** Reads the desired state from an agent's stream, and records outcomes on it. */
@Injectable()
export class AgentRecords {
  constructor(
    private readonly agents: Agents,
    private readonly events: EventStore,
    private readonly keyring: Keyring,
    private readonly variables: Variables,
    private readonly config: Config,
  ) {}

  async load(agentId: string): Promise<AgentAtRevision | null> {
    const { state: agent, revision } = await this.agents.find(agentId);
    return agent === null ? null : { agent, revision };
  }

  /**
   * Records an outcome. Returns false, and writes nothing, if the stream has changed since it was read, because the decision may be stale.
   */
  record(agentId: string, seen: AgentAtRevision, record: AgentRecord): Promise<boolean> {
    return this.execute(agentId, seen, record);
  }

  /** Requests a transition that the rules require without a caller's request. Returns false as `record` does. */
  requestTransition(agentId: string, seen: AgentAtRevision, order: 'sleep' | 'sleep_deeper' | 'wake' | 'restart'): Promise<boolean> {
    const { accountId } = seen.agent;
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

  /** Destroys the data key of an agent, then records that the agent is deleted. */
  async erase(agentId: string, seen: AgentAtRevision): Promise<boolean> {
    await this.keyring.shred(agentId);
    return this.record(agentId, seen, { type: 'RecordDeleted' });
  }

  /** Closes the stream of a deleted agent, so that nothing can be appended, and removes its snapshots. May be repeated. */
  async close(agentId: string, { revision }: AgentAtRevision): Promise<void> {
    await this.agents.close(agentId, revision);
  }

  /** Opens the log of a deployment, which shows none of the values that its container may have got, whatever became of them since. */
  async openBuildLog(agentId: string, { accountId }: Agent, deploymentId: string): Promise<BuildLog> {
    const secrets = await this.variables.secretsSince(agentId, deploymentId);
    const all = secrets === null ? null : [...secrets, ...secretsOfBuilds(this.config.buildVariables)];
    return new BuildLog(this.events, { id: deploymentId, agentId, accountId }, all);
  }

  /**
   * Executes a command. Event ids are derived from the position in the stream, so that a record that is repeated after a crash is the same
   * event.
   */
  private async execute(agentId: string, { agent, revision }: AgentAtRevision, command: AgentCommand): Promise<boolean> {
    const context = systemContext('deployments', agent.accountId, await this.causeAt(agentId, revision));
    const eventId = (event: { type: string }, index: number) => uuidv5(`${agentId}:${revision}:${event.type}:${index}`, RECORD_NAMESPACE);
    try {
      await this.agents.execute(agentId, command, context, { expectedRevision: revision, eventId });
      return true;
    } catch (error) {
      if (error instanceof Refusal && error.code === 'revision_mismatch') return false;
      throw error;
    }
  }

  /** Returns the id of the event that began the transition under way at the revision, or null if none of the latest events did. */
  private async causeAt(agentId: string, revision: number): Promise<string | null> {
    const earlier = this.agents.events(agentId, { from: revision, backwards: true, limit: CAUSE_WITHIN });
    for await (const { id, type } of earlier) if (beginsTransition(type)) return id;
    return null;
  }
}
