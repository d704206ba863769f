import { Injectable, type OnModuleInit } from '@nestjs/common';

import { agentDecider } from '../agents/index.ts';
import { Aggregates } from '../platform/event-store/aggregates.ts';
import { idOf, type StoredEvent } from '../platform/event-store/event-store.ts';
import { Sagas, type Saga, type SagaKey, type SagaPass } from '../platform/sagas/saga.ts';
import { LogRetention } from './log-entries.projection.ts';
import { OutputRemoval } from './output-removal.service.ts';

const TRIM_EVERY_MS = 3_600_000;
/** How soon an agent that is being deleted is looked at again, should nobody tell that it is gone. */
const AGAIN_MS = 15_000;

/** Removes output that is too old, and all output of agents that are no more, within a minute of their deletion. */
@Injectable()
export class OutputRetentionSaga implements Saga, OnModuleInit {
  readonly name = 'output-retention';
  readonly filter = { eventClass: 'core' as const, categories: ['agent'], types: ['AgentDeletionRequested', 'AgentDeleted'] };
  readonly concurrency = 4;
  private trimmedAt = 0;

  constructor(
    private readonly sagas: Sagas,
    private readonly aggregates: Aggregates,
    private readonly retention: LogRetention,
    private readonly removal: OutputRemoval,
  ) {}

  onModuleInit(): void {
    this.sagas.register(this);
  }

  keyOf(event: StoredEvent): string {
    return idOf(event.stream);
  }

  /** A deletion is told by events and kept by a deadline. What came back all the same, with a read model that was made anew, is found each hour. */
  async resync(): Promise<SagaKey[]> {
    if (Date.now() - this.trimmedAt < TRIM_EVERY_MS) return [];
    this.trimmedAt = Date.now();
    await this.retention.trim();
    return (await this.retention.strangers()).map((key) => ({ key, account: null }));
  }

  async run({ key: agentId, mayAct, belongsTo }: SagaPass): Promise<Date | null> {
    const { state: agent } = await this.aggregates.load(`agent-${agentId}`, agentDecider);
    if (agent === null) return null;
    belongsTo(agent.accountId);
    if (agent.status === 'deleting') return new Date(Date.now() + AGAIN_MS);
    if (agent.status !== 'deleted') return null;
    mayAct();
    await this.removal.removeAll(agentId);
    return null;
  }
}
