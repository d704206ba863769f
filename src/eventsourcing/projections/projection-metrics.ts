import { Injectable, type OnModuleInit, Optional } from '@nestjs/common';

import { Metrics } from '../../kernel/observability/metrics.ts';
import type { ProjectionStatus } from './tables/projection-registry.ts';
import { Projections } from './projections.ts';

interface ProjectionProgress extends ProjectionStatus {
  lag: { events: number; seconds: number };
}

/** Exports as metrics which projections stopped, which are incomplete, and how far each is behind the log. */
@Injectable()
export class ProjectionMetrics implements OnModuleInit {
  constructor(
    private readonly projections: Projections,
    @Optional() private readonly metrics?: Metrics,
  ) {}

  onModuleInit(): void {
    this.gauge('mooring_projection_failed', '1 where the projection stopped at an event that it can not take in.', ({ status }) =>
      Number(status === 'failed'),
    );
    this.gauge('mooring_projection_filled', '0 while rows are missing that were there to be read.', ({ filled }) => Number(filled));
    this.gauge('mooring_projection_lag_events', 'Events that the projection has not looked at.', ({ lag }) => lag.events);
    this.gauge(
      'mooring_projection_lag_seconds',
      'Age of the oldest event that the projection has not looked at.',
      ({ lag }) => lag.seconds,
    );
  }

  private gauge(name: string, help: string, valueOf: (standing: ProjectionProgress) => number): void {
    this.metrics?.gauge(name, help, async () => new Map((await this.progress()).map((each) => [each.name, valueOf(each)])));
  }

  private async progress(): Promise<ProjectionProgress[]> {
    const statuses = await this.projections.status();
    return Promise.all(statuses.map(async (status) => ({ ...status, lag: await this.projections.lag(status.name) })));
  }
}
