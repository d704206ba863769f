import type { DynamicModule } from '@nestjs/common';

import { accountEvents } from '../../src/accounts/index.ts';
import { AccountsModule } from '../../src/accounts/accounts.module.ts';
import { agentEvents } from '../../src/agents/index.ts';
import { AgentsModule } from '../../src/agents/agents.module.ts';
import { commandEvents } from '../../src/commands/index.ts';
import { CommandsModule } from '../../src/commands/commands.module.ts';
import { customFileEvents } from '../../src/custom-files/index.ts';
import { CustomFilesModule } from '../../src/custom-files/custom-files.module.ts';
import { deploymentEvents } from '../../src/deployments/index.ts';
import { DeploymentsModule } from '../../src/deployments/deployments.module.ts';
import { environmentEvents } from '../../src/environment/index.ts';
import { EnvironmentModule } from '../../src/environment/environment.module.ts';
import { execEvents } from '../../src/exec/index.ts';
import { ExecModule } from '../../src/exec/exec.module.ts';
import { fileEvents } from '../../src/files/index.ts';
import { FilesModule } from '../../src/files/files.module.ts';
import { HistoryModule } from '../../src/history/history.module.ts';
import { logEvents } from '../../src/logs/index.ts';
import { LogsModule } from '../../src/logs/logs.module.ts';
import { conversationEvents } from '../../src/messages/index.ts';
import { MessagesModule } from '../../src/messages/messages.module.ts';
import { secretEvents } from '../../src/secrets/index.ts';
import { SecretsModule } from '../../src/secrets/secrets.module.ts';
import { subscriptionEvents } from '../../src/subscriptions/index.ts';
import { SubscriptionsModule } from '../../src/subscriptions/subscriptions.module.ts';
import { TemplatesModule } from '../../src/templates/templates.module.ts';
import { TrafficModule } from '../../src/traffic/traffic.module.ts';
import { webhookEvents } from '../../src/webhooks/index.ts';
import { WebhooksModule } from '../../src/webhooks/webhooks.module.ts';
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
