import { Query } from '@nestjs/cqrs';

import type { CommandRow } from './commands.table.ts';

/** Returns a command of the account's agent. Throws `agent_not_found`, and `not_found` if the agent has no such command. */
export class GetCommand extends Query<CommandRow> {
  constructor(
    readonly accountId: string,
    readonly agentId: string,
    readonly commandId: string,
  ) {
    super();
  }
}

/** Lists the commands of the account's agent, the latest first. Throws `agent_not_found`. */
export class ListCommands extends Query<CommandRow[]> {
  constructor(
    readonly accountId: string,
    readonly agentId: string,
    readonly limit: number,
    /** The `started_at` and id of the last command on the previous page. */
    readonly after: readonly [string, string] | null,
  ) {
    super();
  }
}

/** The commands of one agent that were running when the read model was read. */
export interface AgentWithCommands {
  agentId: string;
  accountId: string;
  commandIds: string[];
  /** The generation of the container in which the oldest of them runs. */
  generation: number;
}

/** Lists the agents of all accounts in which commands run according to the read model. */
export class ListAgentsWithCommands extends Query<AgentWithCommands[]> {}
