import { createHash } from 'node:crypto';

import { Injectable } from '@nestjs/common';
import { RateLimiterPostgres, RateLimiterRes } from 'rate-limiter-flexible';

import { Database } from '../database/database.ts';
import { Refusal } from '../refusal.ts';

const LOGIN_TRIES = 10;
const LOGIN_WINDOW_SECONDS = 60;

/** How often somebody may try to sign in, counted in PostgreSQL and so for all replicas together. */
@Injectable()
export class LoginLimiter {
  private readonly limiter: RateLimiterPostgres;

  constructor(database: Database) {
    this.limiter = new RateLimiterPostgres({
      storeClient: database.pool,
      storeType: 'pool',
      tableName: 'rate_limits',
      tableCreated: true,
      keyPrefix: 'login',
      points: LOGIN_TRIES,
      duration: LOGIN_WINDOW_SECONDS,
    });
  }

  /** Counts one try: 10 a minute from one address, and 10 a minute for one account, known or not. Throws `rate_limited`. */
  async take(address: string, account: string): Promise<void> {
    await this.consume(`address:${address}`);
    await this.consume(`account:${createHash('sha256').update(account).digest('base64url')}`);
  }

  private async consume(key: string): Promise<void> {
    try {
      await this.limiter.consume(key);
    } catch (reason) {
      if (!(reason instanceof RateLimiterRes)) throw reason;
      throw new Refusal('rate_limited', `There may be ${LOGIN_TRIES} tries to sign in a minute.`, {
        retryAfterSeconds: Math.ceil(reason.msBeforeNext / 1_000),
      });
    }
  }
}
