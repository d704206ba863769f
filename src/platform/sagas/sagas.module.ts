import { Global, Module } from '@nestjs/common';

import { DurableSagas } from './durable-sagas.ts';
import { Sagas } from './saga.ts';
import { SagaMetrics } from './saga-metrics.ts';

@Global()
@Module({
  providers: [DurableSagas, SagaMetrics, { provide: Sagas, useExisting: DurableSagas }],
  exports: [DurableSagas, Sagas],
})
export class SagasModule {}
