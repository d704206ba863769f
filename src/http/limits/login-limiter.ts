import { createHash } from 'node:crypto';

import { Injectable } from '@nestjs/common';
import { RateLimiterPostgres, RateLimiterRes } from 'rate-limiter-flexible';

import { Database } from '../../postgres/database/database.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { NETWORK_BITS, networkOf } from '../../kernel/network/network-of.ts';
import { nextTurn, TURN_KEPT_MS } from './sign-in-turns.ts';

const WINDOW_SECONDS = 60;
/** The attempts from one address, whatever the account. */
const TRIES_OF_ADDRESS = 10;
/** The accounts that are opened from one site in an hour, since every share of the service is an account's. */
const REGISTRATIONS_OF_SITE = 10;
const REGISTRATION_WINDOW_SECONDS = 3_600;
/** The time for which an address is known after a sign-in from it, in seconds. */
const KNOWN_SECONDS = 90 * 86_400;
/** The length of the prefix whose addresses share one turn and the accounts of an hour, in bits: providers give whole sites to their customers. */
const SITE_BITS = 48;
/** The first part of the advisory locks under which the turns of an account are given. */
const TURNS_LOCK = 5041;

/** Limits attempts to sign in and to open accounts. They are counted in PostgreSQL, and so for all replicas together. */
@Injectable()
export class LoginLimiter {
  private readonly addresses: RateLimiterPostgres;
  private readonly known: RateLimiterPostgres;
  private readonly registrations: RateLimiterPostgres;

  constructor(private readonly database: Database) {
    const limiter = (keyPrefix: string, points: number, duration: number) =>
      new RateLimiterPostgres({
        storeClient: database.pool,
        storeType: 'pool',
        tableName: 'rate_limits',
        tableCreated: true,
        keyPrefix,
        points,
        duration,
      });
    this.addresses = limiter('login-address', TRIES_OF_ADDRESS, WINDOW_SECONDS);
    this.known = limiter('login-known', 1, KNOWN_SECONDS);
    this.registrations = limiter('registration-site', REGISTRATIONS_OF_SITE, REGISTRATION_WINDOW_SECONDS);
  }

  /**
   * Counts one attempt. From an address with an earlier sign-in to the account, only the address's own attempts count, so that others can't
   * lock the owner out. Other addresses take turns. Throws `rate_limited`, with the time until the caller's turn.
   */
  async consume(address: string, account: string): Promise<void> {
    const network = networkOf(address, NETWORK_BITS);
    await consume(this.addresses, network, `There may be ${TRIES_OF_ADDRESS} such tries to sign in a minute.`);
    const isKnown = (await this.known.get(pairOf(network, account))) !== null;
    if (isKnown) return;
    const waitMs = await this.turnOf(networkOf(address, SITE_BITS), account);
    if (waitMs === 0) return;
    throw new ProblemError(
      'rate_limited',
      'Many others try to sign in to this account. Try again after Retry-After: it is your turn then.',
      {
        retryAfterSeconds: Math.ceil(waitMs / 1_000),
      },
    );
  }

  /** Counts one attempt to open an account, whatever becomes of it. Throws `rate_limited`. */
  async consumeRegistration(address: string): Promise<void> {
    const site = networkOf(address, SITE_BITS);
    await consume(this.registrations, site, `${REGISTRATIONS_OF_SITE} accounts may be opened from one address in an hour.`);
  }

  /** Remembers a successful sign-in to the account from this address. */
  async succeeded(address: string, account: string): Promise<void> {
    await this.known.set(pairOf(networkOf(address, NETWORK_BITS), account), 1, KNOWN_SECONDS);
  }

  /** Returns the time until the site's turn to try this account, in ms; 0 means now. Replicas share the turns. */
  private turnOf(site: string, account: string): Promise<number> {
    const [queueKey, placeKey] = [`login-queue:${hashOf(account)}`, `login-place:${pairOf(site, account)}`];
    return this.database.transaction(async (client) => {
      await client.query('select pg_advisory_xact_lock($1, hashtext($2))', [TURNS_LOCK, queueKey]);
      const { rows } = await client.query<{ now: string; queue: string | null; place: string | null }>(
        `select (extract(epoch from clock_timestamp()) * 1000)::bigint as now,
                (select expire from rate_limits where key = $1) as queue, (select expire from rate_limits where key = $2) as place`,
        [queueKey, placeKey],
      );
      const [{ now, queue, place } = { now: '0', queue: null, place: null }] = rows;
      const standing = { queueEnd: Number(queue ?? 0), place: place === null ? null : Number(place) - TURN_KEPT_MS };
      const { waitMs, ...next } = nextTurn(Number(now), standing);
      await client.query(SET_ROW, [queueKey, next.queueEnd]);
      if (next.place === null) await client.query('delete from rate_limits where key = $1', [placeKey]);
      else await client.query(SET_ROW, [placeKey, next.place + TURN_KEPT_MS]);
      return waitMs;
    });
  }
}

const SET_ROW = 'insert into rate_limits (key, points, expire) values ($1, 1, $2) on conflict (key) do update set expire = excluded.expire';

async function consume(limiter: RateLimiterPostgres, key: string, rule: string): Promise<void> {
  try {
    await limiter.consume(key);
  } catch (reason) {
    if (!(reason instanceof RateLimiterRes)) throw reason;
    throw new ProblemError('rate_limited', rule, { retryAfterSeconds: Math.ceil(reason.msBeforeNext / 1_000) });
  }
}

/** Returns the form in which a row of the table may name an account. */
function hashOf(account: string): string {
  return createHash('sha256').update(account).digest('base64url');
}

function pairOf(network: string, account: string): string {
  return hashOf(`${network} ${account}`);
}
