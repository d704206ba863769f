import { Injectable } from '@nestjs/common';

import type { CommandContext } from '../../kernel/context/command-context.ts';
import { Keyring } from '../../crypto/keyring.ts';
import { Database } from '../../postgres/database/database.ts';
import { invalidField, ProblemError } from '../../kernel/errors/problem-error.ts';
import { Aggregates } from '../../eventsourcing/aggregates/aggregates.ts';
import { valueProblem } from './secret-values.rules.ts';
import { sourceKinds } from './secrets.events.ts';
import { isSourceKind, sourceOf, usernameProblem } from './source-fields.ts';
import { secretsStream } from './secrets.decider.ts';
import type { OpenedCredential } from './source-credentials.queries.ts';
import { type Source, type SourceCredential, sourceCredentialsDecider, sourceKey } from './source-credentials.decider.ts';

/** A host in the caller's spelling. */
export interface SourceInput {
  kind: string;
  host: string;
}

export interface SourceCredentialWithUse extends SourceCredential {
  lastUsedAt: Date | null;
}

/** Stores the credentials of an account for registries and Git hosts, and decrypts them for pulls and clones from exactly these hosts. */
@Injectable()
export class AccountSourceCredentials {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly keyring: Keyring,
    private readonly database: Database,
  ) {}

  /** Returns the account's credentials, newest first, with their passwords encrypted. */
  async list(accountId: string): Promise<SourceCredentialWithUse[]> {
    const [{ state }, uses] = await Promise.all([
      this.aggregates.load(secretsStream(accountId), sourceCredentialsDecider),
      this.usesOf(accountId),
    ]);
    return [...state.values()]
      .map((credential) => withUse(credential, uses.get(sourceKey(credential))))
      .sort((one, other) => Date.parse(other.createdAt) - Date.parse(one.createdAt));
  }

  /** Creates or replaces the credential. Returns it, and whether it is new. Throws `invalid_request`. */
  async store(
    context: CommandContext,
    accountId: string,
    { kind, host }: SourceInput,
    { username, password }: OpenedCredential,
  ): Promise<{ credential: SourceCredentialWithUse; made: boolean }> {
    const source = sourceOf(kind, host);
    if (source === null) throw invalidSource(kind);
    refuseProblem('username', usernameProblem(username));
    refuseProblem('password', password === '' ? 'must not be empty' : valueProblem(password));
    const key = sourceKey(source);
    const sealed = await this.keyring.seal(accountId, sealingContext(source), password);
    const command = { type: 'StoreSourceCredential' as const, accountId, source, username, sealed };
    const { before, state } = await this.aggregates.execute(secretsStream(accountId), sourceCredentialsDecider, command, context);
    const credential = state.get(key);
    if (credential === undefined) throw new Error(`the credential for ${key} is not there after it was stored`);
    return { credential: withUse(credential, (await this.usesOf(accountId)).get(key)), made: !before.has(key) };
  }

  /** Removes the credential. Throws `not_found`. */
  async remove(context: CommandContext, accountId: string, { kind, host }: SourceInput): Promise<void> {
    const source = sourceOf(kind, host);
    if (source === null) throw new ProblemError('not_found', 'There is no credential for this host.');
    const command = { type: 'RemoveSourceCredential' as const, accountId, source };
    await this.aggregates.execute(secretsStream(accountId), sourceCredentialsDecider, command, context);
    await this.database.query('delete from source_credential_uses where account_id = $1 and kind = $2 and host = $3', [
      accountId,
      source.kind,
      source.host,
    ]);
  }

  /** Returns when the account's credentials were last used, by their sources. */
  private async usesOf(accountId: string): Promise<Map<string, Date>> {
    const uses = await this.database.query<{ kind: Source['kind']; host: string; last_used_at: Date }>(
      'select kind, host, last_used_at from source_credential_uses where account_id = $1',
      [accountId],
    );
    return new Map(uses.map((use) => [sourceKey(use), use.last_used_at]));
  }

  /** Returns the decrypted credential and records its use, to the minute; null if the account has none for exactly this host. */
  async use(accountId: string, source: Source): Promise<OpenedCredential | null> {
    const { state } = await this.aggregates.load(secretsStream(accountId), sourceCredentialsDecider);
    const credential = state.get(sourceKey(source));
    if (credential === undefined) return null;
    const password = await this.keyring.open(accountId, sealingContext(source), credential.sealed);
    if (password === null) return null;
    await this.database.query(
      `insert into source_credential_uses as u (account_id, kind, host, last_used_at) values ($1, $2, $3, now())
       on conflict (account_id, kind, host) do update set last_used_at = excluded.last_used_at where u.last_used_at < now() - interval '1 minute'`,
      [accountId, source.kind, source.host],
    );
    return { username: credential.username, password };
  }
}

/** A credential that was removed and stored again counts as not used yet. */
function withUse(credential: SourceCredential, lastUsedAt: Date | undefined): SourceCredentialWithUse {
  const isOwn = lastUsedAt !== undefined && lastUsedAt.getTime() >= Date.parse(credential.createdAt);
  return { ...credential, lastUsedAt: isOwn ? lastUsedAt : null };
}

/** Returns the context that binds an encrypted password to its host, so that it can't be decrypted for another one. */
function sealingContext(source: Source): string {
  return `source credential ${sourceKey(source)}`;
}

function invalidSource(kind: string): ProblemError {
  if (!isSourceKind(kind)) return invalidField('kind', `must be one of ${sourceKinds.join(', ')}`);
  return invalidField(
    'host',
    'must be the name or address of a host, with a port if it needs one, as ghcr.io or registry.example.com:5000',
  );
}

function refuseProblem(field: string, problem: string | null): void {
  if (problem !== null) throw invalidField(field, problem);
}
