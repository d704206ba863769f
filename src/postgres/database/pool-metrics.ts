import { Injectable, type OnModuleInit, Optional } from '@nestjs/common';

import { Metrics } from '../../kernel/observability/metrics.ts';
import { Database } from './database.ts';

/** Reports at `/metrics` how much of each connection pool is in use, and how many callers wait for a connection. */
@Injectable()
export class PoolMetrics implements OnModuleInit {
  constructor(
    private readonly database: Database,
    @Optional() private readonly metrics?: Metrics,
  ) {}

  onModuleInit(): void {
    const tell = (name: string, help: string, valueOf: (pool: ReturnType<Database['pools']>[number]) => number) =>
      this.metrics?.gauge(name, help, () => new Map(this.database.pools().map((pool) => [pool.name, valueOf(pool)])), 'pool');
    tell('mooring_database_connections_max', 'Connections that the pool may open.', ({ max }) => max);
    tell('mooring_database_connections_busy', 'Connections of the pool that are in use.', ({ busy }) => busy);
    tell('mooring_database_waiting', 'Callers that wait for a connection of the pool.', ({ waiting }) => waiting);
  }
}
