import type { Sealed } from '../../crypto/keyring.ts';
import { invalidField, ProblemError } from '../../kernel/errors/problem-error.ts';
import type { Decider, Json } from '../../eventsourcing/event-store/event-definition.ts';
import type { SecretEvent, SourceKind } from './secrets.events.ts';

/** The most source credentials of one account. */
export const SOURCE_CREDENTIALS_MAX = 50;

/** A host of images or of Git repositories. */
export interface Source {
  kind: SourceKind;
  /** The host in canonical spelling, with its port if it has one. */
  host: string;
}

export interface SourceCredential extends Source {
  username: string;
  sealed: Sealed;
  createdAt: string;
}

/** The credentials of one account, by `sourceKey`. */
export type SourceCredentials = ReadonlyMap<string, SourceCredential>;

export type SourceCredentialCommand =
  /** Creates the credential or replaces its user name and password. */
  | { type: 'StoreSourceCredential'; accountId: string; source: Source; username: string; sealed: Sealed }
  | { type: 'RemoveSourceCredential'; accountId: string; source: Source };

export function sourceKey({ kind, host }: Source): string {
  return `${kind} ${host}`;
}

/** The rules of the source credentials of one account, which are on the stream of its secrets. */
export const sourceCredentialsDecider: Decider<SourceCredentials, SourceCredentialCommand, SecretEvent> = {
  initialState: () => new Map(),
  decide,
  evolve,
  snapshot: {
    name: 'source-credentials',
    version: 1,
    subject: (_, id) => id,
    toJson: (credentials) => [...credentials] as unknown as Json,
    fromJson: (json) => new Map(json as unknown as [string, SourceCredential][]),
  },
};

function decide(command: SourceCredentialCommand, credentials: SourceCredentials, now: Date): SecretEvent[] {
  const { accountId: account_id, source } = command;
  const known = credentials.has(sourceKey(source));
  switch (command.type) {
    case 'StoreSourceCredential': {
      if (!known && credentials.size >= SOURCE_CREDENTIALS_MAX)
        throw invalidField('host', `an account has credentials for at most ${SOURCE_CREDENTIALS_MAX} hosts`);
      const { username, sealed: password } = command;
      return [{ type: 'SourceCredentialStored', data: { account_id, ...source, username, password, stored_at: now.toISOString() } }];
    }
    case 'RemoveSourceCredential':
      if (!known) throw new ProblemError('not_found', 'There is no credential for this host.');
      return [{ type: 'SourceCredentialRemoved', data: { account_id, ...source } }];
  }
}

function evolve(credentials: SourceCredentials, event: SecretEvent): SourceCredentials {
  switch (event.type) {
    case 'SourceCredentialStored': {
      const { kind, host, username, password: sealed, stored_at } = event.data;
      const key = sourceKey({ kind, host });
      const createdAt = credentials.get(key)?.createdAt ?? stored_at;
      return new Map(credentials).set(key, { kind, host, username, sealed, createdAt });
    }
    case 'SourceCredentialRemoved': {
      const left = new Map(credentials);
      left.delete(sourceKey(event.data));
      return left;
    }
    case 'SecretStored':
    case 'SecretRemoved':
      return credentials;
    default:
      event satisfies never;
      return credentials;
  }
}
