import { Global, Module } from '@nestjs/common';

import { LatestRows } from './tables/latest-rows.ts';
import { ReadModels } from './projection.ts';
import { ProjectionMetrics } from './projection-metrics.ts';
import { ProgramReplicas } from './program-replicas.ts';
import { Projections } from './projections.ts';

@Global()
@Module({
  providers: [LatestRows, Projections, ProgramReplicas, ProjectionMetrics, { provide: ReadModels, useExisting: Projections }],
  exports: [LatestRows, Projections, ProgramReplicas, ReadModels],
})
export class ProjectionsModule {}
