import { Module } from '@nestjs/common';

import { AccountSecrets } from './account-secrets.service.ts';
import { SourceCredentialsController } from './source-credentials.controller.ts';
import { OpenSourceCredentialHandler } from './source-credentials.handlers.ts';
import { AccountSourceCredentials } from './account-source-credentials.service.ts';
import { SecretsController } from './secrets.controller.ts';
import { RemoveSecretHandler, StoreSecretHandler } from './secrets.handlers.ts';

@Module({
  controllers: [SecretsController, SourceCredentialsController],
  providers: [AccountSecrets, AccountSourceCredentials, StoreSecretHandler, RemoveSecretHandler, OpenSourceCredentialHandler],
  exports: [AccountSecrets],
})
export class SecretsModule {}
