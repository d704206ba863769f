import { Logger } from '@nestjs/common';
import pg from 'pg';
import { DataSource } from 'typeorm';
import type { PostgresDriver } from 'typeorm/driver/postgres/PostgresDriver.js';

import { grantToApplication } from './application-role.ts';
import { entities } from './entities.ts';
import { addressOf, connectOwner, migrate, refuseHalfRestored, refuseUnsafe, type Address } from './migrate.ts';
import { NotificationListener } from './notification-listener.ts';

export interface DatabaseOptions {
  url: string;
  /** The name of the connections in `pg_stat_activity`. */
  applicationName?: string;
  /** The most connections of the shared pool, 10 by default. */
  poolSize?: number;
  /** Lets the service start although the server does not force commits to disk; for tests only. */
  allowUnsafe?: boolean;
  /** The time for which it waits for a server that is away or starting, 30 s by default, in milliseconds. */
  patienceMs?: number;
}

/** Timeouts in milliseconds; a caller that waits longer for a connection gets an error. */
const CONNECT_TIMEOUT_MS = 10_000;
const STATEMENT_TIMEOUT_MS = 30_000;
const LOCK_TIMEOUT_MS = 10_000;
const IDLE_IN_TRANSACTION_TIMEOUT_MS = 30_000;
const PING_TIMEOUT_MS = 3_000;

const logger = new Logger('Database');

/** PostgreSQL as the application role, with one shared pool, which TypeORM uses too. A failure of a connection never ends the process. */
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
      await work().catch((error: Error) => logger.error('A part did not close in order', error.stack));
    await this.notifications.close();
    await Promise.all(this.opened.slice(1).map(({ pool }) => pool.end()));
    await this.dataSource.destroy();
    for (const work of this.afterCloseHooks) await work();
  }
}

/** Migrates as the owner, then connects as the application role. Throws if the server is too old, unsafe, or away for too long. */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  const address = addressOf(options.url);
  const owner = await connectOwner(address, options.patienceMs);
  let role: string | null;
  try {
    await refuseUnsafe(owner, options.allowUnsafe ?? false);
    role = await migrate(owner, address);
    await refuseHalfRestored(owner);
    if (role !== null) await grantToApplication(owner);
  } finally {
    await owner.end();
  }
  const connection = connectionOf(address, role, options);
  const dataSource = await new DataSource({
    type: 'postgres',
    driver: { ...pg, Pool: SteadyPool },
    entities,
    synchronize: false,
    installExtensions: false,
    poolErrorHandler: () => undefined,
    extra: connection,
  }).initialize();
  return new Database((dataSource.driver as PostgresDriver).master as pg.Pool, dataSource, connection);
}

function connectionOf(address: Address, role: string | null, options: DatabaseOptions): pg.PoolConfig {
  const settings = [
    ...(role === null ? [] : [`role=${role}`]),
    // The event store's appends are correct under this level only, and a server's default may differ.
    'default_transaction_isolation=read\\ committed',
    'timezone=UTC',
    'jit=off',
  ];
  return {
    connectionString: address.url,
    application_name: options.applicationName ?? 'mooring',
    max: options.poolSize ?? 10,
    options: [...settings.map((setting) => `-c ${setting}`), address.options].join(' ').trim(),
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    statement_timeout: STATEMENT_TIMEOUT_MS,
    lock_timeout: LOCK_TIMEOUT_MS,
    idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_TIMEOUT_MS,
    keepAlive: true,
  };
}

/** A connection that breaks while it is checked out emits `error` too, and without a listener that ends the process. */
class SteadyPool extends pg.Pool {
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
