/**
 * The claims of idempotency keys, and the sealed responses, in PostgreSQL for all replicas.
 *
 * Owns: the table `idempotency_keys`, and the renewal of this process's running claims. Does not own the decision what a claim means
 * (`IdempotencyInterceptor`).
 *
 * I1  A key has one running try at a time. A try that is not renewed counts as dead, and the next one may proceed.
 * I2  A response is stored once, by the owner of the claim.
 * I3  Requests and responses are sealed: those of an agent under its data key, so that they are shredded with it.
 * I4  Claims are removed after 24 hours.
 */
import { createHash } from 'node:crypto';

import { Injectable, Logger, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { v4 as uuidv4 } from 'uuid';

import { type Sealed, Keyring } from '../../crypto/keyring.ts';
import { Database } from '../../postgres/database/database.ts';
import { type Claim, type ClaimOutcome, IdempotencyStore, type StoredResponse } from './idempotency-store.ts';

/** I1: The time without a renewal after which a try counts as dead, in seconds. */
const LEASE_SECONDS = 10;
const RENEW_EVERY_MS = 2_500;
const RETENTION_HOURS = 24;
const SWEEP_EVERY_MS = 3_600_000;
/** I3: The subject whose data key seals the requests, and the responses that do not belong to an agent. */
const SUBJECT = 'idempotency';

interface Row {
  id: string;
  state: string;
  request: Sealed | null;
  answer: Sealed | null;
  is_first: boolean;
}

/** The store of claims. See I1 to I4. */
@Injectable()
export class PostgresIdempotencyStore extends IdempotencyStore implements OnModuleInit, OnModuleDestroy {
  private readonly logger = new Logger('Idempotency');
  private readonly running = new Set<string>();
  private renewal: NodeJS.Timeout;
  private sweep: NodeJS.Timeout;

  constructor(
    private readonly database: Database,
    private readonly keyring: Keyring,
  ) {
    super();
  }

  onModuleInit(): void {
    this.renewal = setInterval(() => void this.renew(), RENEW_EVERY_MS).unref();
    this.sweep = setInterval(() => void this.deleteExpired(), SWEEP_EVERY_MS).unref();
  }

  onModuleDestroy(): void {
    clearInterval(this.renewal);
    clearInterval(this.sweep);
  }

  async claim(accountId: string, key: string, fingerprint: string, answerSubject: string | null): Promise<ClaimOutcome> {
    const keyHash = createHash('sha256').update(key).digest();
    const owner = uuidv4();
    const request = await this.keyring.seal(SUBJECT, sealContext(accountId, keyHash, 'request'), fingerprint);
    const [taken] = await this.database.query<Row>(CLAIM, [accountId, keyHash, uuidv4(), owner, request]);
    const row = taken ?? (await this.read(accountId, keyHash));
    if (row === undefined) return { kind: 'running' };
    const first = row.request && (await this.keyring.open(SUBJECT, sealContext(accountId, keyHash, 'request'), row.request));
    const same = first === null || first === fingerprint;
    if (taken) {
      const claim = { id: row.id, owner, accountId, keyHash, isFirst: row.is_first, subject: answerSubject ?? SUBJECT };
      if (!same) {
        await this.release(claim, true);
        return { kind: 'reused' };
      }
      this.running.add(owner);
      return { kind: 'claimed', claim };
    }
    if (!same) return { kind: 'reused' };
    if (row.state !== 'done' || row.answer === null) return { kind: 'running' };
    const answer = await this.keyring.open(answerSubject ?? SUBJECT, sealContext(accountId, keyHash, 'answer'), row.answer);
    return answer === null ? { kind: 'shredded' } : { kind: 'answered', answer: JSON.parse(answer) as StoredResponse };
  }

  async finish(claim: Claim, answer: StoredResponse): Promise<void> {
    this.running.delete(claim.owner);
    const sealed = await this.keyring.seal(claim.subject, sealContext(claim.accountId, claim.keyHash, 'answer'), JSON.stringify(answer));
    await this.database.query(
      `update idempotency_keys set state = 'done', answer = $4 where account_id = $1 and key_hash = $2 and owner = $3 and state = 'running'`,
      [claim.accountId, claim.keyHash, claim.owner, sealed],
    );
  }

  async release(claim: Claim, requestStays: boolean): Promise<void> {
    this.running.delete(claim.owner);
    await this.database.query(
      `update idempotency_keys set state = 'released', request = case when $4::boolean then request end
        where account_id = $1 and key_hash = $2 and owner = $3 and state = 'running'`,
      [claim.accountId, claim.keyHash, claim.owner, requestStays],
    );
  }

  async delete({ owner, accountId, keyHash }: Claim): Promise<void> {
    this.running.delete(owner);
    await this.database.query(`delete from idempotency_keys where account_id = $1 and key_hash = $2 and owner = $3 and state = 'running'`, [
      accountId,
      keyHash,
      owner,
    ]);
  }

  private async read(accountId: string, keyHash: Buffer): Promise<Row | undefined> {
    const rows = await this.database.query<Row>(
      'select id, state, request, answer, false as is_first from idempotency_keys where account_id = $1 and key_hash = $2',
      [accountId, keyHash],
    );
    return rows[0];
  }

  private async renew(): Promise<void> {
    if (this.running.size === 0) return;
    try {
      await this.database.query(`update idempotency_keys set claimed_at = now() where owner = any($1) and state = 'running'`, [
        [...this.running],
      ]);
    } catch (error) {
      this.logger.warn({ msg: 'running requests could not be renewed', err: error });
    }
  }

  private async deleteExpired(): Promise<void> {
    try {
      await this.database.query(`delete from idempotency_keys where created_at < now() - interval '${RETENTION_HOURS} hours'`);
    } catch (error) {
      this.logger.warn({ msg: 'old idempotency keys could not be removed', err: error });
    }
  }
}

function sealContext(accountId: string, keyHash: Buffer, field: 'request' | 'answer'): string {
  return `idempotency:${accountId}:${keyHash.toString('hex')}:${field}`;
}

/**
 * Claims a key that is new, expired, or released, or whose try is dead. Returns the row with its first request, and no row if the key is
 * taken.
 */
const CLAIM = `
  insert into idempotency_keys as k (account_id, key_hash, id, state, owner, claimed_at, request, answer, created_at)
  values ($1, $2, $3, 'running', $4, now(), $5, null, now())
  on conflict (account_id, key_hash) do update set
    state = 'running',
    owner = excluded.owner,
    claimed_at = now(),
    answer = null,
    id = case when k.created_at < now() - interval '${RETENTION_HOURS} hours' then excluded.id else k.id end,
    request = case when k.created_at < now() - interval '${RETENTION_HOURS} hours' then excluded.request else coalesce(k.request, excluded.request) end,
    created_at = case when k.created_at < now() - interval '${RETENTION_HOURS} hours' then now() else k.created_at end
  where k.created_at < now() - interval '${RETENTION_HOURS} hours'
     or k.state = 'released'
     or (k.state = 'running' and k.claimed_at < now() - interval '${LEASE_SECONDS} seconds')
  returning k.id, k.state, k.request, k.answer, k.xmax = 0 as is_first`;
