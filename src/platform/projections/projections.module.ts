import { Global, Module } from '@nestjs/common';

import { Leases } from './leases.ts';
import { ReadModels } from './projection.ts';
import { ProjectionMetrics } from './projection-metrics.ts';
import { Projections } from './projections.ts';

@Global()
@Module({
  providers: [Leases, Projections, ProjectionMetrics, { provide: ReadModels, useExisting: Projections }],
  exports: [Leases, Projections, ReadModels],
})
export class ProjectionsModule {}
