import { Global, Module, type OnApplicationBootstrap } from '@nestjs/common';

import { Config } from '../../kernel/config/config.ts';
import { Intervals } from '../../kernel/config/intervals.ts';
import { EventStore } from '../event-store/event-store.ts';
import { isOutage } from '../event-store/outage.ts';
import { Startup } from '../../kernel/startup.ts';
import { ReadModels } from './projection.ts';
import { ProjectionMetrics } from './projection-metrics.ts';
import { ReplicaRegistry } from './replica-registry.ts';
import { Projections } from './projections.ts';
import { LogPasses } from './rebuild/log-pass.ts';

/** The memory for the rows of rebuilds, in bytes; rows beyond it are kept on disk meanwhile. */
const FOLD_MEMORY_BYTES = 48 * 1024 * 1024;

function logPasses(store: EventStore, { dataDir }: Config, { foldGatherMs }: Intervals): LogPasses {
  return new LogPasses(store, { memoryBytes: FOLD_MEMORY_BYTES, directory: dataDir }, foldGatherMs);
}

@Global()
@Module({
  providers: [
    Projections,
    ReplicaRegistry,
    ProjectionMetrics,
    { provide: ReadModels, useExisting: Projections },
    { provide: LogPasses, useFactory: logPasses, inject: [EventStore, Config, Intervals] },
  ],
  exports: [Projections, ReplicaRegistry, ReadModels],
})
export class ProjectionsModule implements OnApplicationBootstrap {
  constructor(
    private readonly projections: Projections,
    private readonly startup: Startup,
  ) {}

  /** Starts the read models, and waits for a store that becomes unavailable meanwhile. */
  onApplicationBootstrap(): Promise<void> {
    return this.startup.until('database', isOutage, () => this.projections.start());
  }
}
