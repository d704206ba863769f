import { Injectable } from '@nestjs/common';
import { v5 as uuidv5 } from 'uuid';

import { agentDecider, transitionDeadlines, type Agent, type AgentCommand, type AgentRecord, type AgentState } from '../agents/index.ts';
import { Config } from '../config.ts';
import { Variables } from '../environment/index.ts';
import { Keyring } from '../platform/crypto/sealed.ts';
import { Aggregates } from '../platform/event-store/aggregates.ts';
import { EventStore } from '../platform/event-store/event-store.ts';
import { systemContext } from '../platform/http/caller.ts';
import { BuildLog } from './build-log.ts';

const RECORD_NAMESPACE = 'c7d1f1c4-5b0a-4d5e-8c57-2f3f1e9b7a60';

/** Reads what is wanted, and writes what became true, on an agent's stream. */
@Injectable()
export class AgentRecords {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly events: EventStore,
    private readonly keyring: Keyring,
    private readonly variables: Variables,
    private readonly config: Config,
  ) {}

  async load(agentId: string): Promise<AgentState> {
    return (await this.aggregates.load(`agent-${agentId}`, agentDecider)).state;
  }

  /** Ids are derived from the place in the stream, so that a record which is repeated after a crash is the same event. */
  async record(agentId: string, agent: Agent, record: AgentRecord): Promise<void> {
    await this.#execute(agentId, agent, record);
  }

  /** What the rules want though nobody asked. */
  async order(agentId: string, agent: Agent, order: 'sleep' | 'sleep_deeper' | 'wake' | 'restart'): Promise<void> {
    const { accountId } = agent;
    const deadlines = transitionDeadlines(this.config);
    const now = new Date();
    switch (order) {
      case 'sleep':
        return this.#execute(agentId, agent, {
          type: 'SleepAgent',
          accountId,
          depth: 'frozen',
          reason: 'idle',
          deadlineAt: deadlines.sleep(now),
        });
      case 'sleep_deeper':
        return this.#execute(agentId, agent, {
          type: 'SleepAgent',
          accountId,
          depth: 'stopped',
          reason: 'deep',
          deadlineAt: deadlines.sleep(now),
        });
      case 'wake':
        return this.#execute(agentId, agent, { type: 'WakeAgent', accountId, trigger: 'work in flight', deadlineAt: deadlines.wake(now) });
      case 'restart':
        return this.#execute(agentId, agent, { type: 'RestartAgent', accountId, deadlineAt: deadlines.restart(now) });
    }
  }

  /** The end of an agent: its data key is destroyed before the record says so, and nothing can be added to its streams. */
  async erase(agentId: string, agent: Agent): Promise<void> {
    await this.keyring.shred(agentId);
    const stream = `agent-${agentId}`;
    await this.record(agentId, agent, { type: 'RecordDeleted' });
    const { revision } = await this.aggregates.load(stream, agentDecider);
    await this.events.closeStream(stream, revision);
    await this.events.setRetention(`log-${agentId}`, { maxCount: 1 });
  }

  async openBuildLog(agentId: string, deploymentId: string): Promise<BuildLog> {
    return new BuildLog(this.events, agentId, deploymentId, await this.variables.secretsOf(agentId));
  }

  async #execute(agentId: string, agent: Agent, command: AgentCommand): Promise<void> {
    const stream = `agent-${agentId}`;
    const { revision } = await this.aggregates.load(stream, agentDecider);
    await this.aggregates.execute(
      stream,
      agentDecider,
      command,
      systemContext('deployments', agent.accountId, agent.deployment?.id ?? null),
      {
        eventId: (event, index) => uuidv5(`${agentId}:${revision}:${event.type}:${index}`, RECORD_NAMESPACE),
      },
    );
  }
}
