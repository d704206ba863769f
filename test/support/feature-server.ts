import { Module, type DynamicModule, type Type } from '@nestjs/common';
import { CqrsModule } from '@nestjs/cqrs';

import type { Environment } from '../../src/kernel/config/setting-reader.ts';
import { CryptoModule } from '../../src/crypto/crypto.module.ts';
import type { AnyEventDefinition } from '../../src/eventsourcing/event-store/event-catalogue.ts';
import { EventStoreModule } from '../../src/eventsourcing/event-store.module.ts';
import { scopes, type Caller, type Scope } from '../../src/kernel/context/caller.ts';
import { CredentialVerifier } from '../../src/http/auth/credential-verifier.ts';
import { HttpModule } from '../../src/http/http.module.ts';
import type { Intervals } from '../../src/kernel/config/intervals.ts';
import { LeasesModule } from '../../src/postgres/leases/leases.module.ts';
import { ProjectionsModule } from '../../src/eventsourcing/projections/projections.module.ts';
import { SagasModule } from '../../src/eventsourcing/sagas/sagas.module.ts';
import { startTestServer, type TestServer } from './http-server.ts';
import { testDatabase } from './test-database.ts';

/**
 * Knows credentials by their names: `mk_acme` is a key of the account acme with every scope, `mk_acme_deploy` one with only that scope,
 * `ms_acme` a session of the account, and `ms_root` one of an administrator.
 */
class NamedCredentials extends CredentialVerifier {
  verifyApiKey(raw: string): Promise<Caller | null> {
    const [, accountId = '', only] = raw.split('_');
    const granted = only === undefined ? scopes : [only as Scope];
    return Promise.resolve({ kind: 'api_key', id: raw, name: raw, accountId, role: 'member', scopes: new Set(granted) });
  }

  verifySession(token: string): Promise<Caller | null> {
    const [, accountId = ''] = token.split('_');
    const role = accountId === 'root' ? 'admin' : 'member';
    return Promise.resolve({ kind: 'session', id: accountId, name: accountId, accountId, role, scopes: new Set(scopes) });
  }
}

@Module({})
class CredentialsModule {}

const namedCredentials: DynamicModule = {
  module: CredentialsModule,
  global: true,
  providers: [{ provide: CredentialVerifier, useClass: NamedCredentials }],
  exports: [CredentialVerifier],
};

export interface Features {
  modules: (Type | DynamicModule)[];
  definitions: AnyEventDefinition[];
  environment?: Environment;
  intervals?: Intervals;
  /** The verifier of credentials that replaces the named ones. */
  credentials?: Type;
}

/** Starts a real server with everything that features depend on and its own database, and only the features under test. */
export function startFeatureServer({ modules, definitions, environment, intervals, credentials }: Features): Promise<TestServer> {
  return startTestServer(
    () => ({
      imports: [
        testDatabase(),
        CqrsModule.forRoot(),
        CryptoModule,
        EventStoreModule.forRoot({ definitions }),
        LeasesModule,
        ProjectionsModule,
        SagasModule,
        HttpModule,
        credentials ?? namedCredentials,
        ...modules,
      ],
    }),
    environment,
    intervals,
  );
}
