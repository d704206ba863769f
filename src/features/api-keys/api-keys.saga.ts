import { Injectable, type OnModuleInit } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';

import { Clock } from '../../kernel/clock.ts';
import { Aggregates } from '../../eventsourcing/aggregates/aggregates.ts';
import { idOf, type StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import { systemContext } from '../../kernel/context/command-context.ts';
import { Sagas, type Saga, type SagaKey, type SagaPass } from '../../eventsourcing/sagas/saga.ts';
import { sagaStep } from '../../eventsourcing/sagas/saga-step.ts';
import { apiKeyDecider, endsAt } from './api-keys.decider.ts';
import { ListEndedApiKeys } from './api-keys.queries.ts';

/** Records that a key has expired. The key is refused from its expiry on, even before this is recorded. */
@Injectable()
export class ApiKeysSaga implements Saga, OnModuleInit {
  readonly name = 'api-keys';
  readonly filter = { eventClass: 'core' as const, categories: ['apiKey'], types: ['ApiKeyIssued'] };
  readonly concurrency = 4;

  constructor(
    private readonly sagas: Sagas,
    private readonly aggregates: Aggregates,
    private readonly queries: QueryBus,
    private readonly clock: Clock,
  ) {}

  onModuleInit(): void {
    this.sagas.register(this);
  }

  keyOf(event: StoredEvent): string {
    return idOf(event.stream);
  }

  resync(): Promise<SagaKey[]> {
    return this.queries.execute(new ListEndedApiKeys());
  }

  async reconcile(keyId: string, { setAccount }: SagaPass): Promise<Date | null> {
    const stream = `apiKey-${keyId}`;
    const { state: key } = await this.aggregates.load(stream, apiKeyDecider);
    if (key !== null) setAccount(key.accountId);
    const end = endsAt(key);
    if (key === null || end === null || end > this.clock.now()) return end;
    await this.aggregates.execute(stream, apiKeyDecider, { type: 'RecordExpiry' }, systemContext(this.name, key.accountId));
    sagaStep(this.name, keyId, 'expired');
    return null;
  }
}
