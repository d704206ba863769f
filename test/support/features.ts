import type { DynamicModule } from '@nestjs/common';

import { accountEvents, AccountCredentialRow, AccountRow, AccountsModule } from '../../src/accounts/index.ts';
import { AgentActivityRow, agentEvents, AgentRow, AgentsModule } from '../../src/agents/index.ts';
import { deploymentEvents, DeploymentRow, DeploymentsModule } from '../../src/deployments/index.ts';
import { environmentEvents, EnvironmentModule } from '../../src/environment/index.ts';
import { HistoryModule } from '../../src/history/index.ts';
import { logEvents, LogsModule } from '../../src/logs/index.ts';
import { conversationEvents, ConversationRow, MessagesModule } from '../../src/messages/index.ts';
import { TemplatesModule } from '../../src/templates/index.ts';
import type { Features } from './feature-server.ts';

/** The features of agents without their containers. */
export const agentFeatures: Features = {
  modules: [AccountsModule, AgentsModule, EnvironmentModule, HistoryModule],
  entities: [AccountRow, AccountCredentialRow, AgentRow, AgentActivityRow],
  definitions: [accountEvents, agentEvents, environmentEvents].flatMap((events) => Object.values(events)),
};

/** The features of running agents, on the given runtime, with their logs and conversations. */
export function runningFeatures(runtime: DynamicModule): Features {
  return {
    modules: [runtime, ...agentFeatures.modules, LogsModule, TemplatesModule, MessagesModule, DeploymentsModule],
    entities: [...agentFeatures.entities, ConversationRow, DeploymentRow],
    definitions: [
      ...agentFeatures.definitions,
      ...[logEvents, deploymentEvents, conversationEvents].flatMap((events) => Object.values(events)),
    ],
  };
}
