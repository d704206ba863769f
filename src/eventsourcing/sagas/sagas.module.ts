import { Global, Module } from '@nestjs/common';

import { DurableSagas } from './durable-sagas.ts';
import { Sagas } from './saga.ts';
import { SagaRunners } from './saga-runners.ts';
import { SagaMetrics } from './saga-metrics.ts';
import { ShardLeases } from './shard-leases.ts';
import { UnprojectedEvents } from './unprojected-events.ts';

@Global()
@Module({
  providers: [DurableSagas, SagaRunners, ShardLeases, UnprojectedEvents, SagaMetrics, { provide: Sagas, useExisting: DurableSagas }],
  exports: [DurableSagas, Sagas],
})
export class SagasModule {}
