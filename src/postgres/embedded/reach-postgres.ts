import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';

import type { Config } from '../../kernel/config/config.ts';
import { startEmbeddedPostgres } from './embedded-postgres.ts';
import { ownerOf } from './postgres-owner.ts';
import { isPostgresOn, readPostmaster } from './postgres-process.ts';

export interface ReachedPostgres {
  /** The URL for the owner of the schema; it contains the password. */
  url: string;
  /** Stops the server if it was started to reach the database. */
  release(): Promise<void>;
}

type DatabaseLocation = Pick<Config, 'databaseUrl' | 'dataDir'>;

/**
 * Returns the service's database for a tool that runs beside it: that of a running service, or else the embedded server, started for as
 * long as the tool needs it. Throws if there is no database yet, or while a service is starting or stopping.
 */
export async function reachPostgres({ databaseUrl, dataDir }: DatabaseLocation): Promise<ReachedPostgres> {
  if (databaseUrl !== null) return { url: databaseUrl, release: async () => undefined };
  const named = join(dataDir, 'postgres');
  if (!existsSync(named)) throw new Error(`there is no database in ${dataDir}; set MOORING_DATA_DIR to the folder that has it`);
  if (ownerOf(dataDir) === null) return holdPostgres({ databaseUrl, dataDir });
  const cluster = realpathSync(named);
  const server = readPostmaster(cluster);
  if (server?.ready !== true || !isPostgresOn(cluster, server.pid))
    throw new Error(`the service on ${dataDir} is starting or stopping; try again in a moment`);
  const password = readFileSync(join(dataDir, 'postgres.password'), 'utf8').trim();
  return { url: `postgres://mooring:${password}@127.0.0.1:${server.port}/mooring`, release: async () => undefined };
}

/**
 * Returns the database for a tool that needs exclusive use of it; it is created if there is none. Throws if a service, or another tool,
 * uses the data directory.
 */
export async function holdPostgres({ databaseUrl, dataDir }: DatabaseLocation): Promise<ReachedPostgres> {
  if (databaseUrl !== null) return { url: databaseUrl, release: async () => undefined };
  const server = await startEmbeddedPostgres({ dataDir });
  return { url: server.url, release: () => server.stop() };
}
