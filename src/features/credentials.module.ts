import { Global, Injectable, Module } from '@nestjs/common';

import { Sessions } from './accounts/index.ts';
import { AccountsModule } from './accounts/accounts.module.ts';
import { ApiKeysVerifier } from './api-keys/index.ts';
import { ApiKeysModule } from './api-keys/api-keys.module.ts';
import type { Caller } from '../kernel/context/caller.ts';
import { CredentialVerifier } from '../http/auth/credential-verifier.ts';

/** Verifies a credential with the feature that knows its kind. */
@Injectable()
class FeatureVerifier extends CredentialVerifier {
  constructor(
    private readonly apiKeys: ApiKeysVerifier,
    private readonly sessions: Sessions,
  ) {
    super();
  }

  override verifyApiKey(rawKey: string, isCurrent: boolean): Promise<Caller | null> {
    return this.apiKeys.verify(rawKey, isCurrent);
  }

  override verifySession(token: string): Promise<Caller | null> {
    return this.sessions.verify(token);
  }
}

/** Identifies callers for the HTTP layer. */
@Global()
@Module({
  imports: [AccountsModule, ApiKeysModule],
  providers: [{ provide: CredentialVerifier, useClass: FeatureVerifier }],
  exports: [CredentialVerifier],
})
export class CredentialsModule {}
