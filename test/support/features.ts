import { accountEvents, AccountCredentialRow, AccountRow, AccountsModule } from '../../src/accounts/index.ts';
import { AgentActivityRow, agentEvents, AgentRow, AgentsModule } from '../../src/agents/index.ts';
import { environmentEvents, EnvironmentModule } from '../../src/environment/index.ts';
import { HistoryModule } from '../../src/history/index.ts';
import type { Features } from './feature-server.ts';

/** Agents, with all that is about them but their containers. */
export const agentFeatures: Features = {
  modules: [AccountsModule, AgentsModule, EnvironmentModule, HistoryModule],
  entities: [AccountRow, AccountCredentialRow, AgentRow, AgentActivityRow],
  definitions: [accountEvents, agentEvents, environmentEvents].flatMap((events) => Object.values(events)),
};
