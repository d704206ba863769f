import { Injectable, type OnModuleInit, Optional } from '@nestjs/common';

import { Metrics } from '../http/metrics.ts';
import { Projections } from './projections.ts';

/** Tells `/metrics` which projections stopped. */
@Injectable()
export class ProjectionMetrics implements OnModuleInit {
  constructor(
    private readonly projections: Projections,
    @Optional() private readonly metrics?: Metrics,
  ) {}

  onModuleInit(): void {
    this.metrics?.gauge('mooring_projection_failed', '1 where the projection stopped at an event that it can not take in.', async () => {
      const statuses = await this.projections.status();
      return new Map(statuses.map(({ name, status }) => [name, status === 'failed' ? 1 : 0]));
    });
  }
}
