import { Injectable, type OnModuleInit } from '@nestjs/common';

import { Agents } from '../../agents/services.ts';
import { idOf, type StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { Sagas, type Saga, type SagaKey, type SagaPass } from '../../../eventsourcing/sagas/saga.ts';
import { LogRetention } from '../entries/log-entries.projection.ts';
import { OutputRemoval } from './output-removal.service.ts';

const TRIM_EVERY_MS = 3_600_000;
/** An agent that is being deleted is checked again after this time, in ms, in case no event reports that it is deleted. */
const RECHECK_AFTER_MS = 15_000;

/** Removes output that is too old, and all output of deleted agents within a minute of their deletion. */
@Injectable()
export class OutputRetentionSaga implements Saga, OnModuleInit {
  readonly name = 'output-retention';
  readonly filter = { eventClass: 'core' as const, categories: ['agent'], types: ['AgentDeletionRequested', 'AgentDeleted'] };
  readonly concurrency = 4;
  private trimmedAt = 0;

  constructor(
    private readonly sagas: Sagas,
    private readonly agents: Agents,
    private readonly retention: LogRetention,
    private readonly removal: OutputRemoval,
  ) {}

  onModuleInit(): void {
    this.sagas.register(this);
  }

  keyOf(event: StoredEvent): string {
    return idOf(event.stream);
  }

  /**
   * Trims the output once an hour, and returns deleted agents whose entries are back after a rebuild of the read model. Deletions
   * themselves arrive as events, and are checked again at a deadline.
   */
  async resync(): Promise<SagaKey[]> {
    if (Date.now() - this.trimmedAt < TRIM_EVERY_MS) return [];
    this.trimmedAt = Date.now();
    await this.retention.trim();
    return (await this.retention.agentsWithoutRow()).map((key) => ({ key, account: null }));
  }

  async reconcile(agentId: string, { assertLease, setAccount }: SagaPass): Promise<Date | null> {
    const { state: agent } = await this.agents.find(agentId);
    if (agent === null) return null;
    setAccount(agent.accountId);
    if (agent.status === 'deleting') return new Date(Date.now() + RECHECK_AFTER_MS);
    if (agent.status !== 'deleted') return null;
    assertLease();
    await this.removal.removeAll(agentId);
    return null;
  }
}
