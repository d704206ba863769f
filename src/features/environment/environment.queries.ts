import { Query } from '@nestjs/cqrs';

import type { KeyedVariable } from './environment.decider.ts';

/** Lists the agent's variables by name, with masks in place of secrets. Throws `agent_not_found`. */
export class ListVariables extends Query<KeyedVariable[]> {
  constructor(
    readonly accountId: string,
    readonly agentId: string,
  ) {
    super();
  }
}
