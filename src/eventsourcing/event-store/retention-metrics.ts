import { Injectable, type OnModuleInit, Optional } from '@nestjs/common';

import { Metrics } from '../../kernel/observability/metrics.ts';
import { EventStore, type RetentionStatus } from './event-store.ts';

/** Exports as metrics whether old container output is removed from the log in time. Exports nothing for a store whose server removes it. */
@Injectable()
export class RetentionMetrics implements OnModuleInit {
  constructor(
    private readonly store: EventStore,
    @Optional() private readonly metrics?: Metrics,
  ) {}

  onModuleInit(): void {
    this.gauge('mooring_log_retention_age_seconds', 'Since when no old output was left to be removed from the log.', ({ caughtUpAt }) =>
      caughtUpAt === null ? null : (Date.now() - Date.parse(caughtUpAt)) / 1_000,
    );
    this.gauge('mooring_log_retention_failed', '1 where this process could not remove old output the last time.', ({ error }) =>
      Number(error !== null),
    );
    this.gauge(
      'mooring_log_retention_forgotten_events',
      'Events of output that this process has removed.',
      ({ removed: forgotten }) => forgotten,
    );
  }

  private gauge(name: string, help: string, valueOf: (status: RetentionStatus) => number | null): void {
    this.metrics?.gauge(name, help, async () => {
      const status = await this.store.retention();
      const value = status && valueOf(status);
      return value === null ? new Map<string, number>() : value;
    });
  }
}
