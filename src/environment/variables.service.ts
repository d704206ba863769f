import { Injectable } from '@nestjs/common';

import { agentStream } from '../agents/index.ts';
import { Keyring } from '../platform/crypto/keyring.ts';
import { Aggregates } from '../platform/event-store/aggregates.ts';
import { environmentDecider, type Variable } from './environment.decider.ts';

/** Returns the context that binds an encrypted value to its variable: it can be decrypted under no other name. */
export function variableContext(key: string): string {
  return `variable ${key}`;
}

/** Reads an agent's variables in clear, for its container only. They never enter a response, an event or a log line. */
@Injectable()
export class Variables {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly keyring: Keyring,
  ) {}

  /** Returns all variables of the agent in clear, or none if it is deleted. */
  async of(agentId: string): Promise<Record<string, string>> {
    const opened = await this.opened(agentId, () => true);
    return Object.fromEntries(opened);
  }

  /** Returns the secret values of the agent, which must not be seen in any output. */
  async secretsOf(agentId: string): Promise<string[]> {
    const opened = await this.opened(agentId, (variable) => variable.isSecret);
    return opened.map(([, value]) => value);
  }

  private async opened(agentId: string, wanted: (variable: Variable) => boolean): Promise<[string, string][]> {
    const { state } = await this.aggregates.load(agentStream(agentId), environmentDecider);
    const opened: [string, string][] = [];
    for (const [key, variable] of state.variables) {
      if (!wanted(variable)) continue;
      const value = variable.sealed === null ? variable.value : await this.keyring.open(agentId, variableContext(key), variable.sealed);
      if (value !== null) opened.push([key, value]);
    }
    return opened;
  }
}
