import type { DynamicModule } from '@nestjs/common';

import { accountEvents } from '../../src/features/accounts/index.ts';
import { AccountsModule } from '../../src/features/accounts/accounts.module.ts';
import { agentEvents } from '../../src/features/agents/index.ts';
import { AgentsModule } from '../../src/features/agents/agents.module.ts';
import { commandEvents } from '../../src/features/commands/index.ts';
import { CommandsModule } from '../../src/features/commands/commands.module.ts';
import { customFileEvents } from '../../src/features/custom-files/index.ts';
import { CustomFilesModule } from '../../src/features/custom-files/custom-files.module.ts';
import { deploymentEvents } from '../../src/features/deployments/index.ts';
import { DeploymentsModule } from '../../src/features/deployments/deployments.module.ts';
import { environmentEvents } from '../../src/features/environment/index.ts';
import { EnvironmentModule } from '../../src/features/environment/environment.module.ts';
import { execEvents } from '../../src/features/exec/index.ts';
import { ExecModule } from '../../src/features/exec/exec.module.ts';
import { fileEvents } from '../../src/features/files/index.ts';
import { FilesModule } from '../../src/features/files/files.module.ts';
import { HistoryModule } from '../../src/features/history/history.module.ts';
import { logEvents } from '../../src/features/logs/index.ts';
import { LogsModule } from '../../src/features/logs/logs.module.ts';
import { conversationEvents } from '../../src/features/messages/index.ts';
import { MessagesModule } from '../../src/features/messages/messages.module.ts';
import { secretEvents } from '../../src/features/secrets/index.ts';
import { SecretsModule } from '../../src/features/secrets/secrets.module.ts';
import { subscriptionEvents } from '../../src/features/subscriptions/index.ts';
import { SubscriptionsModule } from '../../src/features/subscriptions/subscriptions.module.ts';
import { TemplatesModule } from '../../src/features/templates/templates.module.ts';
import { TrafficModule } from '../../src/features/traffic/traffic.module.ts';
import { webhookEvents } from '../../src/features/webhooks/index.ts';
import { WebhooksModule } from '../../src/features/webhooks/webhooks.module.ts';
import type { Features } from './feature-server.ts';

/** The features of agents without their containers. */
export const agentFeatures: Features = {
  modules: [AccountsModule, AgentsModule, SecretsModule, EnvironmentModule, CustomFilesModule, HistoryModule],
  definitions: [accountEvents, agentEvents, secretEvents, environmentEvents, customFileEvents].flatMap((events) => Object.values(events)),
};

/** The features of running agents, on the given runtime, with their logs and conversations. */
export function runningFeatures(runtime: DynamicModule): Features {
  return {
    modules: [
      runtime,
      ...agentFeatures.modules,
      LogsModule,
      TemplatesModule,
      MessagesModule,
      ExecModule,
      CommandsModule,
      FilesModule,
      WebhooksModule,
      TrafficModule,
      DeploymentsModule,
    ],
    definitions: [
      ...agentFeatures.definitions,
      ...[logEvents, deploymentEvents, conversationEvents, execEvents, commandEvents, fileEvents, webhookEvents].flatMap((events) =>
        Object.values(events),
      ),
    ],
  };
}

/** The features of agents without their containers, and the subscriptions to their events. */
export const subscribedFeatures: Features = {
  modules: [...agentFeatures.modules, SubscriptionsModule],
  definitions: [...agentFeatures.definitions, ...Object.values(subscriptionEvents)],
};
