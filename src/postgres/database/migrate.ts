import { Logger } from '@nestjs/common';
import pg from 'pg';
import { DataSource } from 'typeorm';

import { pause } from '../../kernel/async/pause.ts';
import { ensureApplicationRole } from './application-role.ts';
import { isDatabaseUnavailable } from './database-unavailable.ts';
import { FIRST_MIGRATION, migrations } from '../migrations/index.ts';

/** The address of the server, with the start options separate from the URL. */
export interface Address {
  url: string;
  options: string;
}

/** The two-part advisory lock of this service's start; the event store uses (5040, 1) and (5040, 2). */
const migrationLock = [5040, 10];
const migrationLockTimeout = '120s';
/** The time for which a tool waits for a server that is starting, in ms. */
const PATIENCE_MS = 30_000;
const RETRY_EVERY_MS = 250;

const logger = new Logger('Database');

export function addressOf(url: string): Address {
  // The message does not quote a malformed address, which may contain a password.
  if (!URL.canParse(url)) throw new Error('DATABASE_URL is not a valid address');
  const parsed = new URL(url);
  const options = parsed.searchParams.get('options') ?? '';
  parsed.searchParams.delete('options');
  return { url: parsed.href, options };
}

/** Connects as the owner. Retries for up to `patienceMs` (30 s) while the server is unavailable or starting. */
export async function connectOwner(address: Address, patienceMs = PATIENCE_MS): Promise<pg.Client> {
  const deadline = Date.now() + patienceMs;
  for (;;) {
    const client = new pg.Client({
      connectionString: address.url,
      application_name: 'mooring migrations',
      connectionTimeoutMillis: 10_000,
      options: address.options,
      keepAlive: true,
    });
    client.on('error', (error) => logger.warn(`The connection for migrations was lost: ${error.message}`));
    try {
      await client.connect();
      return client;
    } catch (error) {
      await client.end().catch(() => undefined);
      if (!isDatabaseUnavailable(error) || Date.now() >= deadline) throw error;
      await pause(RETRY_EVERY_MS);
    }
  }
}

/** Throws if the server is older than PostgreSQL 15, or, unless that is allowed, could lose acknowledged writes in a crash. */
export async function refuseUnsafe(owner: pg.Client, allowUnsafe: boolean): Promise<void> {
  const { rows } = await owner.query<{ name: string; setting: string }>(
    `select name, setting from pg_settings where name in ('fsync', 'full_page_writes', 'synchronous_commit', 'server_version_num')`,
  );
  const settings = new Map(rows.map(({ name, setting }) => [name, setting]));
  if (Number(settings.get('server_version_num')) < 150_000) throw new Error('PostgreSQL 15 or later is required');
  const off = ['fsync', 'full_page_writes', 'synchronous_commit'].filter((name) => settings.get(name) === 'off');
  if (off.length === 0 || allowUnsafe) return;
  throw new Error(`PostgreSQL would lose acknowledged writes in a crash: ${off.join(', ')} must not be off`);
}

/** The table that exists from the start of a restore until everything is restored. */
export const restoreMarker = 'public.mooring_restore';

/** Throws if a restore was interrupted, because its incomplete data would otherwise go unnoticed. */
export async function refuseHalfRestored(owner: pg.Client): Promise<void> {
  const { rows } = await owner.query<{ marked: boolean }>('select to_regclass($1) is not null as marked', [restoreMarker]);
  if (rows[0]?.marked === true) throw new Error('a restore into this database was interrupted: run it again (npm run restore)');
}

/** Throws if the tables were created by a program from before the first release, from which no migration leads to the current ones. */
async function refuseUnreleased(owner: pg.Client): Promise<void> {
  const { rows } = await owner.query<{ has_migrations: boolean }>(`select to_regclass('mooring_migration') is not null as has_migrations`);
  if (rows[0]?.has_migrations !== true) return;
  const { rowCount } = await owner.query('select from mooring_migration where timestamp < $1 limit 1', [FIRST_MIGRATION]);
  if (rowCount === 0) return;
  throw new Error(
    'the database was made by a program from before the first release, and can not be brought up to date: ' +
      'begin anew with an empty data folder (MOORING_DATA_DIR) and, if DATABASE_URL is set, an empty database',
  );
}

/** Brings the schema up to date, one replica at a time. Returns the application role, or null if it can't be used. */
export async function migrate(owner: pg.Client, address: Address): Promise<string | null> {
  await owner.query(`set lock_timeout = '${migrationLockTimeout}'`);
  // The lock is held until this connection ends, so that it also covers the grants that follow.
  await owner.query('select pg_advisory_lock($1, $2)', migrationLock);
  await refuseUnreleased(owner);
  const role = await ensureApplicationRole(owner, (reason) =>
    logger.warn(`Working without the role mooring_app (${reason}): only the trigger protects events from changes`),
  );
  const dataSource = new DataSource({
    type: 'postgres',
    driver: pg,
    migrations,
    migrationsTableName: 'mooring_migration',
    migrationsTransactionMode: 'each',
    synchronize: false,
    installExtensions: false,
    poolSize: 1,
    extra: { connectionString: address.url, application_name: 'mooring migrations', options: address.options },
  });
  await dataSource.initialize();
  try {
    await dataSource.runMigrations();
  } finally {
    await dataSource.destroy();
  }
  return role;
}
