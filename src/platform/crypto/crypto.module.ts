import { Global, Logger, Module } from '@nestjs/common';

import { Config } from '../config/config.ts';
import { Database } from '../database/database.ts';
import { Startup } from '../startup.ts';
import { DatabaseKeyring } from './database-keyring.ts';
import { loadMasterKey } from './master-key.ts';
import { Keyring } from './keyring.ts';
import { ShredLedger } from './shred-ledger.ts';

@Global()
@Module({
  providers: [
    {
      provide: Keyring,
      inject: [Config, Database, Startup],
      useFactory: async (config: Config, database: Database, startup: Startup) => {
        const logger = new Logger('Keyring');
        const masterKey = await loadMasterKey(config, (message) => logger.warn(message));
        return new DatabaseKeyring(database, masterKey, ShredLedger.in(config.dataDir), startup);
      },
    },
  ],
  exports: [Keyring],
})
export class CryptoModule {}
