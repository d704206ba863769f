import { type DynamicModule, Inject, Module, type OnApplicationShutdown } from '@nestjs/common';

import { Config } from '../../src/kernel/config/config.ts';
import { Database } from '../../src/postgres/database/database.ts';
import { openDatabase } from '../../src/postgres/database/open-database.ts';

@Module({})
class TestDatabaseModule implements OnApplicationShutdown {
  constructor(@Inject(Database) private readonly database: Database) {}

  onApplicationShutdown(): Promise<void> {
    return this.database.close();
  }
}

/** Provides the configured database for tests of single parts. */
export function testDatabase(): DynamicModule {
  return {
    module: TestDatabaseModule,
    global: true,
    providers: [
      {
        provide: Database,
        inject: [Config],
        useFactory: (config: Config) => openDatabase({ url: config.databaseUrl ?? '', allowUnsafe: true }),
      },
    ],
    exports: [Database],
  };
}
