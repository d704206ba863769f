import { Global, Module } from '@nestjs/common';

import { LatestRows } from './latest-rows.ts';
import { Leases } from './leases.ts';
import { ReadModels } from './projection.ts';
import { ProjectionMetrics } from './projection-metrics.ts';
import { ProgramReplicas } from './program-replicas.ts';
import { Projections } from './projections.ts';

@Global()
@Module({
  providers: [Leases, LatestRows, Projections, ProgramReplicas, ProjectionMetrics, { provide: ReadModels, useExisting: Projections }],
  exports: [Leases, LatestRows, Projections, ProgramReplicas, ReadModels],
})
export class ProjectionsModule {}
