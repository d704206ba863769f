import { Injectable, type OnModuleInit } from '@nestjs/common';

import { idOf, type StoredEvent } from '../platform/event-store/event-store.ts';
import { Sagas, type Saga, type SagaKey, type SagaPass } from '../platform/sagas/saga.ts';
import { DrainedRuns } from './drained-runs.ts';
import { LogRetention } from './log-entries.projection.ts';

const TRIM_EVERY_MS = 3_600_000;

/** Removes output that is too old. */
@Injectable()
export class OutputRetentionSaga implements Saga, OnModuleInit {
  readonly name = 'output-retention';
  readonly filter = { eventClass: 'core' as const, categories: ['agent'], types: ['AgentDeleted'] };
  readonly concurrency = 4;
  private trimmedAt = 0;

  constructor(
    private readonly sagas: Sagas,
    private readonly retention: LogRetention,
    private readonly drained: DrainedRuns,
  ) {}

  onModuleInit(): void {
    this.sagas.register(this);
  }

  keyOf(event: StoredEvent): string {
    return idOf(event.stream);
  }

  async resync(): Promise<SagaKey[]> {
    if (Date.now() - this.trimmedAt > TRIM_EVERY_MS) {
      this.trimmedAt = Date.now();
      await this.retention.trim();
    }
    return [];
  }

  async run({ key: agentId }: SagaPass): Promise<Date | null> {
    await this.drained.forget([agentId]);
    return null;
  }
}
