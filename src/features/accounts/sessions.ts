import { createHash, randomBytes } from 'node:crypto';

import { Injectable } from '@nestjs/common';
import { v5 as uuidv5 } from 'uuid';

import { base62 } from '../../crypto/base62.ts';
import { BatchLoader } from '../../kernel/async/batch-loader.ts';
import { Database } from '../../postgres/database/database.ts';
import { AccountPositions } from '../../eventsourcing/log/account-positions.ts';
import { type Caller, scopes } from '../../kernel/context/caller.ts';
import { ReadModels, tableOf } from '../../eventsourcing/projections/projection.ts';
import { accountsProjection } from './accounts.projection.ts';
import type { AccountRow } from './accounts.table.ts';

const ABSOLUTE_DAYS = 30;
const IDLE_DAYS = 7;
const DAY_MS = 86_400_000;
const TOKEN_BYTES = 32;

const SESSION_NAMESPACE = '3f8e4c0d-7b56-4d0e-9c61-5a2f0e7d9b14';

export interface NewSession {
  /** The token `ms_…`, which is returned once; only its SHA-256 is stored. */
  token: string;
  expiresAt: Date;
}

/** Makes a session. It can be used only after `Sessions.store` has stored it. */
export function newSession(now: Date): NewSession {
  return { token: `ms_${base62(randomBytes(TOKEN_BYTES))}`, expiresAt: new Date(now.getTime() + ABSOLUTE_DAYS * DAY_MS) };
}

/** Returns the id of a session, for places where its token must not appear. */
export function sessionIdOf(token: string): string {
  return idOfHash(hashOfToken(token));
}

function idOfHash(hash: Buffer): string {
  return uuidv5(hash, SESSION_NAMESPACE);
}

const allScopes = new Set(scopes);

/** Manages sessions: opaque tokens that expire after 30 days, after 7 days without use, or when their holder signs out. All replicas share them. */
@Injectable()
export class Sessions {
  /** The holders of tokens, by the tokens' hashes in hexadecimal. Concurrent requests share one statement. */
  private readonly holders = new BatchLoader<string, LiveSession>((hashes) => this.findAll(hashes));

  constructor(
    private readonly database: Database,
    private readonly readModels: ReadModels,
    private readonly positions: AccountPositions,
  ) {}

  async store(accountId: string, { token, expiresAt }: NewSession): Promise<void> {
    await this.database.query('insert into account_sessions (token_hash, account_id, expires_at) values ($1, $2, $3)', [
      hashOfToken(token),
      accountId,
      expiresAt,
    ]);
    await this.database.query(`delete from account_sessions where not (${LIVE})`);
  }

  /** Returns the holder of the token; null if it is unknown or has ended. Its use is recorded once a minute. */
  async verify(token: string): Promise<Caller | null> {
    const hash = hashOfToken(token);
    const row = (await this.holders.load(hash.toString('hex'))) ?? (await this.findWhenCurrent(hash));
    if (row === undefined) return null;
    if (row.stale) await this.database.query('update account_sessions set last_used_at = now() where token_hash = $1', [hash]);
    const { account_id: accountId, name, role, expires_at } = row;
    const own = { sessionId: sessionIdOf(token), expiresAt: expires_at.getTime() };
    return { kind: 'session', id: accountId, name, accountId, role, scopes: allScopes, ...own };
  }

  private async findAll(hashes: string[]): Promise<Map<string, LiveSession>> {
    const { rows } = await this.database.pool.query<LiveSession>({
      name: 'sessions',
      text: FIND,
      values: [hashes.map((hash) => Buffer.from(hash, 'hex'))],
    });
    return new Map(rows.map((row) => [row.token_hash.toString('hex'), row]));
  }

  /**
   * Looks the session up once the read model is current: it may not contain a new account yet, and while it is being filled, a token that
   * is not found need not be unknown.
   */
  private async findWhenCurrent(hash: Buffer): Promise<LiveSession | undefined> {
    const { last } = this.positions.of(null, accountsProjection.filter);
    await this.readModels.waitIfRunning(accountsProjection.name, last);
    await this.readModels.waitUntilFilled(accountsProjection.name);
    return this.holders.load(hash.toString('hex'));
  }

  /** Returns the ids of the account's sessions that have not ended. */
  async liveIds(accountId: string): Promise<Set<string>> {
    const rows = await this.database.query<{ token_hash: Buffer }>(
      `select token_hash from account_sessions where account_id = $1 and ${LIVE}`,
      [accountId],
    );
    return new Set(rows.map(({ token_hash }) => idOfHash(token_hash)));
  }

  async end(token: string): Promise<void> {
    await this.database.query('delete from account_sessions where token_hash = $1', [hashOfToken(token)]);
  }
}

const LIVE = `expires_at > now() and last_used_at > now() - interval '${IDLE_DAYS} days'`;

const FIND = `
  select s.token_hash, s.account_id, a.name, a.role, s.expires_at, s.last_used_at < now() - interval '1 minute' as stale
    from account_sessions s join ${tableOf(accountsProjection)} a using (account_id)
    where token_hash = any($1::bytea[]) and ${LIVE}`;

interface LiveSession extends Pick<AccountRow, 'account_id' | 'name' | 'role'> {
  token_hash: Buffer;
  expires_at: Date;
  stale: boolean;
}

function hashOfToken(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
