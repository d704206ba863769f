import { Global, Logger, Module } from '@nestjs/common';

import { Config } from '../kernel/config/config.ts';
import { Database } from '../postgres/database/database.ts';
import { Startup } from '../kernel/startup.ts';
import { DatabaseKeyring } from './database-keyring.ts';
import { loadMasterKey, MasterKeyFile } from './master-key.ts';
import { MasterKeyRotations } from './master-key-rotations.ts';
import { MasterKeys } from './master-keys.ts';
import { Keyring } from './keyring.ts';
import { ShredLedger } from './shred-ledger.ts';

@Global()
@Module({
  providers: [
    {
      provide: MasterKeys,
      inject: [Config, Database],
      useFactory: async (config: Config, database: Database) => {
        const logger = new Logger('Keyring');
        const key = await loadMasterKey(config, (message) => logger.warn(message));
        return new MasterKeys(database, key, config.masterKey === null ? new MasterKeyFile(config.dataDir) : null);
      },
    },
    {
      provide: Keyring,
      inject: [Config, Database, MasterKeys, Startup],
      useFactory: (config: Config, database: Database, masterKeys: MasterKeys, startup: Startup) =>
        new DatabaseKeyring(database, masterKeys, ShredLedger.in(config.dataDir), startup),
    },
    MasterKeyRotations,
  ],
  exports: [Keyring, MasterKeys, MasterKeyRotations],
})
export class CryptoModule {}
