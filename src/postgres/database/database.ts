/**
 * PostgreSQL as the application role.
 *
 * Owns: the shared pool, which TypeORM uses too, the pools of other parts, and the connection for notifications. Does not own migrations
 * (`migrate.ts`), or what runs in a pool that another part opened.
 *
 * D1  A failure of a connection never ends the process.
 * D2  A part whose work must not wait for others has a pool of its own, with its own timeouts; so has the ping of the readiness check.
 * D3  Every statement, lock and wait for a connection ends after a timeout.
 * D4  Closing waits for running work, and runs the hooks of other parts in order: those before it while the database is open, those after
 *     it when all connections are closed.
 */
import { Logger } from '@nestjs/common';
import pg from 'pg';
import type { DataSource } from 'typeorm';

import { NotificationListener } from './notification-listener.ts';
import { SteadyPool } from './steady-pool.ts';

/** The timeout of a ping, in milliseconds. */
const PING_TIMEOUT_MS = 3_000;

const logger = new Logger('Database');

/** The database of this process. See D1 to D4. */
export class Database {
  private readonly notifications: NotificationListener;
  /** The pools; the shared one is first. */
  private readonly opened: { name: string; pool: pg.Pool }[];
  private readonly beforeCloseHooks: (() => Promise<void>)[] = [];
  private readonly afterCloseHooks: (() => Promise<void>)[] = [];
  private readonly pings: pg.Pool;
  private closed: Promise<void> | null = null;

  constructor(
    readonly pool: pg.Pool,
    readonly dataSource: DataSource,
    private readonly connection: pg.PoolConfig,
  ) {
    this.opened = [{ name: 'shared', pool }];
    this.pings = this.openPool('pings', 1, { query_timeout: PING_TIMEOUT_MS });
    this.notifications = new NotificationListener(() => new pg.Client({ ...connection, keepAlive: true }));
  }

  /** Runs one statement and returns its rows. 64-bit integers are returned as text. */
  async query<Row extends pg.QueryResultRow = Record<string, unknown>>(sql: string, values?: unknown[]): Promise<Row[]> {
    return (await this.pool.query<Row>(sql, values)).rows;
  }

  /** Resolves if the server answers, however many statements wait for a connection of the shared pool. */
  async ping(): Promise<void> {
    await this.pings.query('select 1');
  }

  /** Runs `work` in a transaction (READ COMMITTED): commits when it returns, rolls back when it throws. */
  async transaction<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    const client = await this.pool.connect();
    let broken: Error | undefined;
    try {
      await client.query('begin');
      const result = await work(client);
      await client.query('commit');
      return result;
    } catch (error) {
      await client.query('rollback').catch((reason: Error) => (broken = reason));
      throw error;
    } finally {
      client.release(broken);
    }
  }

  /**
   * Calls `onNotify` for every NOTIFY on the channel, and once with an empty payload after each reconnect, since notifications may have
   * been missed by then. All listeners share one connection. Returns a function that ends listening.
   */
  listen(channel: string, onNotify: (payload: string) => void): Promise<() => Promise<void>> {
    return this.notifications.listen(channel, onNotify);
  }

  /**
   * Opens a pool that no other part can exhaust, for the purpose that `name` states; it is closed together with the database. `settings`
   * override those of the shared pool.
   */
  openPool(
    name: string,
    size: number,
    settings: Pick<pg.PoolConfig, 'query_timeout' | 'statement_timeout' | 'lock_timeout'> = {},
  ): pg.Pool {
    const pool = new SteadyPool({ ...this.connection, ...settings, max: size });
    this.opened.push({ name, pool });
    return pool;
  }

  /** Returns how much of each pool is in use. */
  pools(): { name: string; max: number; busy: number; waiting: number }[] {
    return this.opened.map(({ name, pool: { options, totalCount, idleCount, waitingCount } }) => ({
      name,
      max: options.max,
      busy: totalCount - idleCount,
      waiting: waitingCount,
    }));
  }

  /** Registers work that `close` does while the database is still open; the last registered is done first. */
  beforeClose(work: () => Promise<void>): void {
    this.beforeCloseHooks.unshift(work);
  }

  /** Registers work that `close` does when all connections are closed, such as stopping the server. */
  afterClose(work: () => Promise<void>): void {
    this.afterCloseHooks.push(work);
  }

  /** Waits for running work, then closes every connection. Idempotent. */
  close(): Promise<void> {
    this.closed ??= this.closeAll();
    return this.closed;
  }

  private async closeAll(): Promise<void> {
    for (const work of this.beforeCloseHooks)
      await work().catch((error: Error) => logger.error('A part of the service failed while closing', error.stack));
    await this.notifications.close();
    await Promise.all(this.opened.slice(1).map(({ pool }) => pool.end()));
    await this.dataSource.destroy();
    for (const work of this.afterCloseHooks) await work();
  }
}
