import { Injectable } from '@nestjs/common';

import { agentStream } from '../agents/index.ts';
import { Keyring } from '../../crypto/keyring.ts';
import { Aggregates } from '../../eventsourcing/aggregates/aggregates.ts';
import { EventStore } from '../../eventsourcing/event-store/event-store.ts';
import { RuntimeRefused } from '../../runtime/runtime.errors.ts';
import { AccountSecrets } from '../secrets/services.ts';
import { secretChanges } from './secret-changes.ts';
import { environmentDecider, type Variable } from './environment.decider.ts';

/** Returns the context that binds an encrypted value to its variable, so that it can't be decrypted under another name. */
export function variableContext(key: string): string {
  return `variable ${key}`;
}

/** A decrypted variable. The value is null if it comes from a secret that does not exist, or if the agent's key was destroyed. */
interface PlainVariable {
  key: string;
  secret: string | null;
  value: string | null;
}

/** Decrypts an agent's variables, for its container only. They must not enter a response, an event or a log line. */
@Injectable()
export class Variables {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly keyring: Keyring,
    private readonly secrets: AccountSecrets,
    private readonly events: EventStore,
  ) {}

  /**
   * Returns all variables of the agent decrypted, with the current values of the account's secrets; none if it is deleted. Throws
   * `RuntimeRefused` if a secret does not exist, because the agent must not boot without it.
   */
  async of(agentId: string): Promise<Record<string, string>> {
    const values: [string, string][] = [];
    for (const { key, secret, value } of await this.openVariables(agentId, () => true)) {
      if (value !== null) values.push([key, value]);
      else if (secret !== null)
        throw new RuntimeRefused(
          `The variable ${key} takes its value from the secret ${secret}, which does not exist. Store that secret, or change the variable.`,
        );
    }
    return Object.fromEntries(values);
  }

  /**
   * Returns every secret value that the agent's container may have received since the deployment was requested, including those that were
   * replaced or removed since, so that they can be hidden in output. Returns null if too much has changed since to find them.
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
    const opened = await this.openVariables(agentId, (variable) => variable.isSecret);
    return opened.flatMap(({ value }) => (value === null ? [] : [value]));
  }

  private async openVariables(agentId: string, wanted: (variable: Variable) => boolean): Promise<PlainVariable[]> {
    const { state } = await this.aggregates.load(agentStream(agentId), environmentDecider);
    const variables = [...state.variables].filter(([, variable]) => wanted(variable));
    const names = variables.flatMap(([, { secret }]) => (secret === null ? [] : [secret]));
    const secrets = state.accountId === null ? new Map<string, string>() : await this.secrets.open(state.accountId, names);
    const opened: PlainVariable[] = [];
    for (const [key, { secret, sealed, value }] of variables) {
      if (secret !== null) opened.push({ key, secret, value: secrets.get(secret) ?? null });
      else opened.push({ key, secret, value: sealed === null ? value : await this.keyring.open(agentId, variableContext(key), sealed) });
    }
    return opened;
  }
}
