import { type DynamicModule, Module } from '@nestjs/common';
import { CqrsModule } from '@nestjs/cqrs';

import { keyEvents } from './features/admin/index.ts';
import { AdminModule } from './features/admin/admin.module.ts';
import { accountEvents } from './features/accounts/index.ts';
import { AccountsModule } from './features/accounts/accounts.module.ts';
import { agentEvents } from './features/agents/index.ts';
import { AgentsModule } from './features/agents/agents.module.ts';
import { apiKeyEvents } from './features/api-keys/index.ts';
import { ApiKeysModule } from './features/api-keys/api-keys.module.ts';
import { computerEvents, viewerEvents } from './features/computers/index.ts';
import { commandEvents } from './features/commands/index.ts';
import { CommandsModule } from './features/commands/commands.module.ts';
import { ComputerDesktopsModule } from './features/computers/computer-desktops.module.ts';
import { ComputerContainersModule } from './features/computers/computer-containers.module.ts';
import { ComputersModule } from './features/computers/computers.module.ts';
import { ViewedDesktopsModule } from './features/computers/viewed-desktops.module.ts';
import { ViewersModule } from './features/computers/viewers.module.ts';
import { ConfigModule } from './kernel/config/config.module.ts';
import type { Config } from './kernel/config/config.ts';
import { CredentialsModule } from './features/credentials.module.ts';
import { customFileEvents } from './features/custom-files/index.ts';
import { CustomFilesModule } from './features/custom-files/custom-files.module.ts';
import { deploymentEvents } from './features/deployments/index.ts';
import { DeploymentsModule } from './features/deployments/deployments.module.ts';
import { environmentEvents } from './features/environment/index.ts';
import { EnvironmentModule } from './features/environment/environment.module.ts';
import { execEvents } from './features/exec/index.ts';
import { ExecModule } from './features/exec/exec.module.ts';
import { fileEvents } from './features/files/index.ts';
import { FilesModule } from './features/files/files.module.ts';
import { HistoryModule } from './features/history/history.module.ts';
import { logEvents } from './features/logs/index.ts';
import { LogsModule } from './features/logs/logs.module.ts';
import { conversationEvents } from './features/messages/index.ts';
import { McpModule } from './features/mcp/mcp.module.ts';
import { MessagesModule } from './features/messages/messages.module.ts';
import { CryptoModule } from './crypto/crypto.module.ts';
import { DatabaseModule } from './postgres/database.module.ts';
import type { AnyEventDefinition } from './eventsourcing/event-store/event-catalogue.ts';
import { EventStoreModule } from './eventsourcing/event-store.module.ts';
import { HttpModule } from './http/http.module.ts';
import { LeasesModule } from './postgres/leases/leases.module.ts';
import { ProjectionsModule } from './eventsourcing/projections/projections.module.ts';
import { rebuildEvents } from './eventsourcing/projections/rebuild/rebuild.events.ts';
import { RuntimeModule } from './runtime/runtime.module.ts';
import { SagasModule } from './eventsourcing/sagas/sagas.module.ts';
import type { Startup } from './kernel/startup.ts';
import { ProvisioningModule } from './features/provisioning/provisioning.module.ts';
import { secretEvents } from './features/secrets/index.ts';
import { SecretsModule } from './features/secrets/secrets.module.ts';
import { subscriptionEvents } from './features/subscriptions/index.ts';
import { SubscriptionsModule } from './features/subscriptions/subscriptions.module.ts';
import { TemplatesModule } from './features/templates/templates.module.ts';
import { webhookEvents } from './features/webhooks/index.ts';
import { TrafficModule } from './features/traffic/traffic.module.ts';
import { WebhooksModule } from './features/webhooks/webhooks.module.ts';

/** Every event type that the log may hold. */
export const eventDefinitions: readonly AnyEventDefinition[] = [
  accountEvents,
  apiKeyEvents,
  agentEvents,
  computerEvents,
  viewerEvents,
  secretEvents,
  environmentEvents,
  customFileEvents,
  deploymentEvents,
  conversationEvents,
  execEvents,
  commandEvents,
  webhookEvents,
  fileEvents,
  logEvents,
  subscriptionEvents,
  rebuildEvents,
  keyEvents,
].flatMap((events) => Object.values(events));

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
        // infrastructure
        ConfigModule.forRoot(config, startup),
        CqrsModule.forRoot(),
        DatabaseModule.forRoot({ allowUnsafe: allowUnsafeDatabase }),
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
        SecretsModule,
        TemplatesModule,
        AgentsModule,
        EnvironmentModule,
        CustomFilesModule,
        ComputersModule,
        ComputerDesktopsModule,
        ComputerContainersModule,
        ViewersModule.of(ViewedDesktopsModule),
        HistoryModule,
        LogsModule,
        MessagesModule,
        ExecModule,
        CommandsModule,
        WebhooksModule,
        TrafficModule,
        FilesModule,
        DeploymentsModule,
        ProvisioningModule,
        SubscriptionsModule,
        AdminModule,
        McpModule,
      ],
    };
  }
}
