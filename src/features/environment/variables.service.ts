import { Injectable } from '@nestjs/common';

import { agentStream } from '../agents/index.ts';
import { Keyring } from '../../crypto/keyring.ts';
import { Aggregates } from '../../eventsourcing/aggregates/aggregates.ts';
import { EventStore } from '../../eventsourcing/event-store/event-store.ts';
import { RuntimeRefused } from '../../runtime/runtime.errors.ts';
import { AccountSecrets } from '../secrets/services.ts';
import { secretChanges } from './secret-changes.ts';
import { environmentDecider, type Variable } from './environment.decider.ts';

/** Returns the context that binds an encrypted value to its variable: it can be decrypted under no other name. */
export function variableContext(key: string): string {
  return `variable ${key}`;
}

/** A variable in clear. The value is null if it takes its value from a secret that does not exist, or if the agent's key was destroyed. */
interface Opened {
  key: string;
  secret: string | null;
  value: string | null;
}

/** Reads an agent's variables in clear, for its container only. They never enter a response, an event or a log line. */
@Injectable()
export class Variables {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly keyring: Keyring,
    private readonly secrets: AccountSecrets,
    private readonly events: EventStore,
  ) {}

  /**
   * Returns all variables of the agent in clear, with the present values of the account's secrets, or none if it is deleted. Throws
   * `RuntimeRefused` if a secret does not exist: the agent must not boot without it.
   */
  async of(agentId: string): Promise<Record<string, string>> {
    const values: [string, string][] = [];
    for (const { key, secret, value } of await this.opened(agentId, () => true)) {
      if (value !== null) values.push([key, value]);
      else if (secret !== null)
        throw new RuntimeRefused(
          `The variable ${key} takes its value from the secret ${secret}, which does not exist. Store that secret, or change the variable.`,
        );
    }
    return Object.fromEntries(values);
  }

  /**
   * Returns each secret value that the agent's container may have got since the deployment was requested, whatever was replaced or removed
   * since, for they must not be seen in any output. Returns null if too much has changed since to find them.
   */
  async secretsSince(agentId: string, deploymentId: string): Promise<string[] | null> {
    const changes = await secretChanges(this.events.readStream(agentStream(agentId), { backwards: true }), deploymentId);
    if (changes === null) return null;
    const { state } = await this.aggregates.load(agentStream(agentId), environmentDecider);
    const names = new Set(changes.names);
    for (const { secret } of state.variables.values()) if (secret !== null) names.add(secret);
    const replaced = state.accountId === null ? [] : await this.secrets.openSince(state.accountId, names, changes.since);
    if (replaced === null) return null;
    const values = await Promise.all(changes.values.map(({ key, sealed }) => this.keyring.open(agentId, variableContext(key), sealed)));
    return [...(await this.secretsOf(agentId)), ...replaced, ...values.filter((value) => value !== null)];
  }

  /** Returns the secret values that the agent's variables have now. */
  async secretsOf(agentId: string): Promise<string[]> {
    const opened = await this.opened(agentId, (variable) => variable.isSecret);
    return opened.flatMap(({ value }) => (value === null ? [] : [value]));
  }

  private async opened(agentId: string, wanted: (variable: Variable) => boolean): Promise<Opened[]> {
    const { state } = await this.aggregates.load(agentStream(agentId), environmentDecider);
    const variables = [...state.variables].filter(([, variable]) => wanted(variable));
    const names = variables.flatMap(([, { secret }]) => (secret === null ? [] : [secret]));
    const secrets = state.accountId === null ? new Map<string, string>() : await this.secrets.open(state.accountId, names);
    const opened: Opened[] = [];
    for (const [key, { secret, sealed, value }] of variables) {
      if (secret !== null) opened.push({ key, secret, value: secrets.get(secret) ?? null });
      else opened.push({ key, secret, value: sealed === null ? value : await this.keyring.open(agentId, variableContext(key), sealed) });
    }
    return opened;
  }
}
