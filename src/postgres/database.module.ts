import { type DynamicModule, Inject, Logger, Module, type OnApplicationShutdown } from '@nestjs/common';
import { Config } from '../kernel/config/config.ts';
import { Startup } from '../kernel/startup.ts';
import { isDatabaseUnavailable } from './database/database-unavailable.ts';
import { Database } from './database/database.ts';
import { openDatabase } from './database/open-database.ts';
import { startEmbeddedPostgres } from './embedded/embedded-postgres.ts';
import { PoolMetrics } from './database/pool-metrics.ts';

export interface DatabaseModuleOptions {
  /** Allows a server that does not force commits to disk; for tests only. */
  allowUnsafe?: boolean;
}

const logger = new Logger('Database');

/** Provides the `Database` globally: the server that DATABASE_URL names, else PostgreSQL from the npm packages as a child process. */
@Module({})
export class DatabaseModule implements OnApplicationShutdown {
  constructor(@Inject(Database) private readonly database: Database) {}

  static forRoot(options: DatabaseModuleOptions): DynamicModule {
    return {
      module: DatabaseModule,
      global: true,
      providers: [
        {
          provide: Database,
          useFactory: (config: Config, startup: Startup) => open(config, startup, options),
          inject: [Config, Startup],
        },
        PoolMetrics,
      ],
      exports: [Database],
    };
  }

  /** Closes the database in Nest's last hook, when nothing serves requests or follows the log any more. */
  async onApplicationShutdown(): Promise<void> {
    await this.database.close();
  }
}

async function open(config: Config, startup: Startup, { allowUnsafe = false }: DatabaseModuleOptions): Promise<Database> {
  const server =
    config.databaseUrl === null ? await startEmbeddedPostgres({ dataDir: config.dataDir, logger: embeddedLogger, onLost }) : null;
  const url = server?.url ?? config.databaseUrl ?? '';
  try {
    const database = await startup.until('database', isDatabaseUnavailable, () => openDatabase({ url, allowUnsafe, patienceMs: 0 }));
    if (server !== null) database.afterClose(() => server.stop());
    startup.opened(() => database.close());
    return database;
  } catch (error) {
    await server?.stop();
    throw error;
  }
}

/** Ends the process. No acknowledged write is lost: the next start recovers the database, or reports why that is impossible. */
function onLost(error: Error): never {
  logger.fatal(`The embedded database ended and can not be started again: ${error.message}`);
  process.exit(1);
}

const embeddedLogger = {
  info: (fields: object, message: string) => logger.log({ ...fields, message }),
  warn: (fields: object, message: string) => logger.warn({ ...fields, message }),
};
