import { Global, Module } from '@nestjs/common';

import { DurableSagas } from './durable-sagas.ts';
import { Sagas } from './saga.ts';

@Global()
@Module({
  providers: [DurableSagas, { provide: Sagas, useExisting: DurableSagas }],
  exports: [DurableSagas, Sagas],
})
export class SagasModule {}
