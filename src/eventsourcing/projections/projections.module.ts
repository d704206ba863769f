import { Global, Module, type OnApplicationBootstrap } from '@nestjs/common';

import { isOutage } from '../event-store/outage.ts';
import { Startup } from '../../kernel/startup.ts';
import { ReadModels } from './projection.ts';
import { ProjectionMetrics } from './projection-metrics.ts';
import { ProgramReplicas } from './program-replicas.ts';
import { Projections } from './projections.ts';

@Global()
@Module({
  providers: [Projections, ProgramReplicas, ProjectionMetrics, { provide: ReadModels, useExisting: Projections }],
  exports: [Projections, ProgramReplicas, ReadModels],
})
export class ProjectionsModule implements OnApplicationBootstrap {
  constructor(
    private readonly projections: Projections,
    private readonly startup: Startup,
  ) {}

  /** Starts the read models, and waits for a store that goes away meanwhile. */
  onApplicationBootstrap(): Promise<void> {
    return this.startup.until('database', isOutage, () => this.projections.start());
  }
}
