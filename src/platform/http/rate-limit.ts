import { createHash } from 'node:crypto';

import { Injectable } from '@nestjs/common';
import ipaddr from 'ipaddr.js';
import { RateLimiterPostgres, RateLimiterRes } from 'rate-limiter-flexible';

import { Database } from '../database/database.ts';
import { Refusal } from '../refusal.ts';

const WINDOW_SECONDS = 60;
/** Tries from one address, whatever the account. */
const TRIES_OF_ADDRESS = 10;
/** Tries for one account from all addresses together from which nobody signed in to it: one address alone can't use them up. */
const TRIES_OF_STRANGERS = 100;
/** An address from which somebody signed in is known for so long. */
const KNOWN_SECONDS = 90 * 86_400;
/** Bits of an IPv6 address that one network has: whoever has one address of it has all of them. */
const NETWORK_BITS = 64;

/** How often somebody may try to sign in, counted in PostgreSQL and so for all replicas together. */
@Injectable()
export class LoginLimiter {
  private readonly addresses: RateLimiterPostgres;
  private readonly strangers: RateLimiterPostgres;
  private readonly known: RateLimiterPostgres;

  constructor(database: Database) {
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
    this.strangers = limiter('login-strangers', TRIES_OF_STRANGERS, WINDOW_SECONDS);
    this.known = limiter('login-known', 1, KNOWN_SECONDS);
  }

  /**
   * Counts one try. From an address from which somebody signed in to the account only the address's own tries count, so that nobody elsewhere
   * can lock its owner out. Throws `rate_limited`.
   */
  async take(address: string, account: string): Promise<void> {
    const network = networkOf(address);
    await consume(this.addresses, network);
    const isKnown = (await this.known.get(pairOf(network, account))) !== null;
    if (!isKnown) await consume(this.strangers, hashOf(account));
  }

  /** Remembers that somebody signed in to the account from there. */
  async succeeded(address: string, account: string): Promise<void> {
    await this.known.set(pairOf(networkOf(address), account), 1, KNOWN_SECONDS);
  }
}

async function consume(limiter: RateLimiterPostgres, key: string): Promise<void> {
  try {
    await limiter.consume(key);
  } catch (reason) {
    if (!(reason instanceof RateLimiterRes)) throw reason;
    throw new Refusal('rate_limited', `There may be ${limiter.points} such tries to sign in a minute.`, {
      retryAfterSeconds: Math.ceil(reason.msBeforeNext / 1_000),
    });
  }
}

/** What counts as one address. */
function networkOf(address: string): string {
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  if (parsed.kind() === 'ipv4') return parsed.toString();
  return ipaddr.IPv6.networkAddressFromCIDR(`${parsed.toString()}/${NETWORK_BITS}`).toString();
}

/** What a row of the table may say of an account. */
function hashOf(account: string): string {
  return createHash('sha256').update(account).digest('base64url');
}

function pairOf(network: string, account: string): string {
  return hashOf(`${network} ${account}`);
}
