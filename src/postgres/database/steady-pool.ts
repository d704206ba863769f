import { Logger } from '@nestjs/common';
import pg from 'pg';

const logger = new Logger('Database');

/** A connection that breaks while it is checked out emits `error` too, and without a listener that ends the process. */
export class SteadyPool extends pg.Pool {
  constructor(config: pg.PoolConfig) {
    super(config);
    // Lost connections are not logged while the pool is closing.
    const lost = (error: Error) => this.ending || logLost(error);
    this.on('error', lost);
    this.on('connect', (client) => client.on('error', lost));
  }
}

function logLost(error: Error): void {
  logger.warn(`A connection was lost: ${error.message}`);
}
