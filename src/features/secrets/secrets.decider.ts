import type { Sealed } from '../../crypto/keyring.ts';
import { invalidField, ProblemError } from '../../kernel/errors/problem-error.ts';
import type { Decider, Json } from '../../eventsourcing/event-store/event-definition.ts';
import type { SecretEvent } from './secrets.events.ts';

/** The most secrets of one account. */
export const SECRETS_MAX = 100;

export interface Secret {
  sealed: Sealed;
  mask: string;
  createdAt: string;
  updatedAt: string;
}

export interface NamedSecret extends Secret {
  name: string;
}

/** The secrets of one account by name. */
export type Secrets = ReadonlyMap<string, Secret>;

/** The agents whose variables take their values from a secret. */
export interface SecretUsers {
  /** The ids of the first of them. */
  agentIds: string[];
  total: number;
}

export type SecretCommand =
  /** Creates the secret or replaces its value. */
  | { type: 'StoreSecret'; accountId: string; name: string; sealed: Sealed; mask: string }
  | { type: 'RemoveSecret'; accountId: string; name: string; users: SecretUsers };

/** The rules of the secrets of one account. They share a stream, so that their number is bounded exactly. */
export const secretsDecider: Decider<Secrets, SecretCommand, SecretEvent> = {
  initialState: () => new Map(),
  decide,
  evolve,
  snapshot: {
    name: 'secrets',
    version: 1,
    subject: (_, id) => id,
    toJson: (secrets) => [...secrets] as unknown as Json,
    fromJson: (json) => new Map(json as unknown as [string, Secret][]),
  },
};

/** Returns the name of the stream of an account's secrets. */
export function secretsStream(accountId: string): string {
  return `secrets-${accountId}`;
}

/** Returns the refusal of a variable with a secret that the account does not have. `field` is the caller's name of the field. */
export function unknownSecret(field: string, name: string): ProblemError {
  const message = `there is no secret ${name} in the account`;
  return new ProblemError('secret_not_found', `${field}: ${message}.`, { errors: [{ field, message }] });
}

function decide(command: SecretCommand, secrets: Secrets, now: Date): SecretEvent[] {
  const { accountId: account_id, name } = command;
  switch (command.type) {
    case 'StoreSecret':
      if (!secrets.has(name) && secrets.size >= SECRETS_MAX) throw invalidField('name', `an account has at most ${SECRETS_MAX} secrets`);
      return [
        { type: 'SecretStored', data: { account_id, name, value: command.sealed, mask: command.mask, stored_at: now.toISOString() } },
      ];
    case 'RemoveSecret':
      if (!secrets.has(name)) throw new ProblemError('not_found', 'There is no such secret.');
      if (command.users.total > 0) throw inUse(name, command.users);
      return [{ type: 'SecretRemoved', data: { account_id, name } }];
  }
}

function inUse(name: string, { agentIds, total }: SecretUsers): ProblemError {
  const others = total > agentIds.length ? ` and ${total - agentIds.length} more` : '';
  const detail = `Variables of these agents take their values from the secret ${name}: ${agentIds.join(', ')}${others}.`;
  return new ProblemError('secret_in_use', detail, { members: { agent_ids: agentIds, used_by: total } });
}

function evolve(secrets: Secrets, event: SecretEvent): Secrets {
  switch (event.type) {
    case 'SecretStored': {
      const { name, value: sealed, mask, stored_at: updatedAt } = event.data;
      const createdAt = secrets.get(name)?.createdAt ?? updatedAt;
      return new Map(secrets).set(name, { sealed, mask, createdAt, updatedAt });
    }
    case 'SecretRemoved': {
      const left = new Map(secrets);
      left.delete(event.data.name);
      return left;
    }
    case 'SourceCredentialStored':
    case 'SourceCredentialRemoved':
      return secrets;
    default:
      event satisfies never;
      return secrets;
  }
}
