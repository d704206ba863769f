import { createHash } from 'node:crypto';

import { Injectable } from '@nestjs/common';
import ipaddr from 'ipaddr.js';
import { RateLimiterPostgres, RateLimiterRes } from 'rate-limiter-flexible';

import { Database } from '../database/database.ts';
import { Refusal } from '../refusal.ts';

const WINDOW_SECONDS = 60;
/** The attempts from one address, whatever the account. */
const TRIES_OF_ADDRESS = 10;
/** The attempts for one account from all addresses without an earlier sign-in to it, so that one address alone can't use them up. */
const TRIES_OF_STRANGERS = 100;
/** The time for which an address is known after a sign-in from it, in seconds. */
const KNOWN_SECONDS = 90 * 86_400;
/** The length of an IPv6 network prefix in bits: the owner of one address has all addresses of its network. */
const NETWORK_BITS = 64;

/** Limits attempts to sign in. They are counted in PostgreSQL, and so for all replicas together. */
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
   * Counts one attempt. From an address with an earlier sign-in to the account, only the address's own attempts count, so that others can't
   * lock the owner out. Throws `rate_limited`.
   */
  async take(address: string, account: string): Promise<void> {
    const network = networkOf(address);
    await consume(this.addresses, network);
    const isKnown = (await this.known.get(pairOf(network, account))) !== null;
    if (!isKnown) await consume(this.strangers, hashOf(account));
  }

  /** Remembers a successful sign-in to the account from this address. */
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

/** Returns the key under which an address is counted: its network for IPv6. */
function networkOf(address: string): string {
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  if (parsed.kind() === 'ipv4') return parsed.toString();
  return ipaddr.IPv6.networkAddressFromCIDR(`${parsed.toString()}/${NETWORK_BITS}`).toString();
}

/** Returns the form in which a row of the table may name an account. */
function hashOf(account: string): string {
  return createHash('sha256').update(account).digest('base64url');
}

function pairOf(network: string, account: string): string {
  return hashOf(`${network} ${account}`);
}
