import pg from 'pg';
import { DataSource } from 'typeorm';
import type { PostgresDriver } from 'typeorm/driver/postgres/PostgresDriver.js';

import { grantToApplication } from './application-role.ts';
import { Database } from './database.ts';
import { entities } from './entities.ts';
import { addressOf, connectOwner, migrate, refuseHalfRestored, refuseUnsafe, type Address } from './migrate.ts';
import { SteadyPool } from './steady-pool.ts';

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
