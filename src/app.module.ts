import { type DynamicModule, Module } from '@nestjs/common';
import { CqrsModule } from '@nestjs/cqrs';

import { AdminModule } from './admin/index.ts';
import { AccountCredentialRow, accountEvents, AccountRow, AccountsModule } from './accounts/index.ts';
import { AgentActivityRow, agentEvents, AgentRow, AgentsModule } from './agents/index.ts';
import { apiKeyEvents, ApiKeyRow, ApiKeysModule, ApiKeyUseRow } from './api-keys/index.ts';
import { ConfigModule } from './platform/config/config.module.ts';
import type { Config } from './platform/config/config.ts';
import { CredentialsModule } from './credentials.module.ts';
import { deploymentEvents, DeploymentRow, DeploymentsModule } from './deployments/index.ts';
import { environmentEvents, EnvironmentModule } from './environment/index.ts';
import { HistoryModule } from './history/index.ts';
import { logEvents, LogsModule } from './logs/index.ts';
import { conversationEvents, ConversationRow, MessagesModule } from './messages/index.ts';
import { CryptoModule } from './platform/crypto/crypto.module.ts';
import { DatabaseModule } from './platform/database/database.module.ts';
import type { AnyEventDefinition } from './platform/event-store/catalogue.ts';
import { EventStoreModule } from './platform/event-store/event-store.module.ts';
import { HttpModule } from './platform/http/http.module.ts';
import { LeasesModule } from './platform/leases/leases.module.ts';
import { ProjectionsModule } from './platform/projections/projections.module.ts';
import { rebuildEvents } from './platform/projections/rebuild/rebuild.events.ts';
import { RuntimeModule } from './platform/runtime/runtime.module.ts';
import { SagasModule } from './platform/sagas/sagas.module.ts';
import type { Startup } from './platform/startup.ts';
import { ProvisioningModule } from './provisioning/index.ts';
import { TemplatesModule } from './templates/index.ts';

/** Every event type that the log may hold. */
export const eventDefinitions: readonly AnyEventDefinition[] = [
  accountEvents,
  apiKeyEvents,
  agentEvents,
  environmentEvents,
  deploymentEvents,
  conversationEvents,
  logEvents,
  rebuildEvents,
].flatMap((events) => Object.values(events));

/** The entities that features read. */
const entities = [AccountRow, AccountCredentialRow, ApiKeyRow, ApiKeyUseRow, AgentRow, AgentActivityRow, ConversationRow, DeploymentRow];

export interface AppOptions {
  /** Starts the service although PostgreSQL does not force commits to disk; for tests only. */
  allowUnsafeDatabase?: boolean;
  /** Tells what the start waits for, can end such a wait, and closes what a failed start has opened. */
  startup?: Startup;
}

/** The root module, which lists all parts of the service. */
@Module({})
export class AppModule {
  static forRoot(config: Config, { allowUnsafeDatabase = false, startup }: AppOptions = {}): DynamicModule {
    return {
      module: AppModule,
      imports: [
        // platform
        ConfigModule.forRoot(config, startup),
        CqrsModule.forRoot(),
        DatabaseModule.forRoot({ entities, allowUnsafe: allowUnsafeDatabase }),
        CryptoModule,
        EventStoreModule.forRoot({ definitions: eventDefinitions }),
        LeasesModule,
        ProjectionsModule,
        SagasModule,
        RuntimeModule,
        HttpModule,
        // features
        CredentialsModule,
        AccountsModule,
        ApiKeysModule,
        TemplatesModule,
        AgentsModule,
        EnvironmentModule,
        HistoryModule,
        LogsModule,
        MessagesModule,
        DeploymentsModule,
        ProvisioningModule,
        AdminModule,
      ],
    };
  }
}
