import { type DynamicModule, Module } from '@nestjs/common';
import { CqrsModule } from '@nestjs/cqrs';

import { keyEvents } from './admin/index.ts';
import { AdminModule } from './admin/admin.module.ts';
import { accountEvents } from './accounts/index.ts';
import { AccountsModule } from './accounts/accounts.module.ts';
import { agentEvents } from './agents/index.ts';
import { AgentsModule } from './agents/agents.module.ts';
import { apiKeyEvents } from './api-keys/index.ts';
import { ApiKeysModule } from './api-keys/api-keys.module.ts';
import { computerEvents, viewerEvents } from './computers/index.ts';
import { commandEvents } from './commands/index.ts';
import { CommandsModule } from './commands/commands.module.ts';
import { ComputerDesktopsModule } from './computers/computer-desktops.module.ts';
import { ComputerContainersModule } from './computers/computer-containers.module.ts';
import { ComputersModule } from './computers/computers.module.ts';
import { ViewedDesktopsModule } from './computers/viewed-desktops.module.ts';
import { ViewersModule } from './computers/viewers.module.ts';
import { ConfigModule } from './kernel/config/config.module.ts';
import type { Config } from './kernel/config/config.ts';
import { CredentialsModule } from './credentials.module.ts';
import { customFileEvents } from './custom-files/index.ts';
import { CustomFilesModule } from './custom-files/custom-files.module.ts';
import { deploymentEvents } from './deployments/index.ts';
import { DeploymentsModule } from './deployments/deployments.module.ts';
import { environmentEvents } from './environment/index.ts';
import { EnvironmentModule } from './environment/environment.module.ts';
import { execEvents } from './exec/index.ts';
import { ExecModule } from './exec/exec.module.ts';
import { fileEvents } from './files/index.ts';
import { FilesModule } from './files/files.module.ts';
import { HistoryModule } from './history/history.module.ts';
import { logEvents } from './logs/index.ts';
import { LogsModule } from './logs/logs.module.ts';
import { conversationEvents } from './messages/index.ts';
import { McpModule } from './mcp/mcp.module.ts';
import { MessagesModule } from './messages/messages.module.ts';
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
import { ProvisioningModule } from './provisioning/provisioning.module.ts';
import { secretEvents } from './secrets/index.ts';
import { SecretsModule } from './secrets/secrets.module.ts';
import { subscriptionEvents } from './subscriptions/index.ts';
import { SubscriptionsModule } from './subscriptions/subscriptions.module.ts';
import { TemplatesModule } from './templates/templates.module.ts';
import { webhookEvents } from './webhooks/index.ts';
import { TrafficModule } from './traffic/traffic.module.ts';
import { WebhooksModule } from './webhooks/webhooks.module.ts';

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
