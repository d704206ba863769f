import { createHash, randomBytes } from 'node:crypto';

import { Injectable } from '@nestjs/common';

import type { Caller, Scope } from '../../kernel/context/caller.ts';
import { Database } from '../../postgres/database/database.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';

/** The time for which a ticket is valid, in seconds. */
const VALID_SECONDS = 30;
/** The largest number of valid tickets of one account. */
const TICKETS_PER_ACCOUNT = 100;
/** The length of a ticket's random part in bytes. */
const TICKET_BYTES = 32;

export interface Ticket {
  ticket: string;
  expiresAt: Date;
}

/** A caller as it is stored in a row. */
type StoredCaller = Omit<Caller, 'scopes' | 'expiresAt'> & { scopes: Scope[]; expiresAt: number | null };

/**
 * Issues and redeems tickets: credentials for one request of one path, for programs that can't send a header, such as a page that opens a
 * WebSocket. They are stored in PostgreSQL, so any replica can redeem them.
 */
@Injectable()
export class Tickets {
  constructor(private readonly database: Database) {}

  /**
   * Returns a new ticket, which authenticates one request of that path as the caller. Throws `rate_limited` if the caller's account, or the
   * given other `share`, has too many.
   */
  async issue(caller: Caller, path: string, share = caller.accountId): Promise<Ticket> {
    const ticket = `mt_${randomBytes(TICKET_BYTES).toString('base64url')}`;
    const { expiresAt = Infinity, scopes, ...others } = caller;
    const stored: StoredCaller = { ...others, scopes: [...scopes], expiresAt: Number.isFinite(expiresAt) ? expiresAt : null };
    await this.database.query('delete from access_tickets where expires_at < clock_timestamp()');
    const [row] = await this.database.query<{ expires_at: Date }>(
      `insert into access_tickets (hash, account_id, path, caller, expires_at)
       select $1, $2, $3, $4, clock_timestamp() + make_interval(secs => $5)
        where (select count(*) from access_tickets where account_id = $2) < $6
       returning expires_at`,
      [hashOf(ticket), share, path, JSON.stringify(stored), VALID_SECONDS, TICKETS_PER_ACCOUNT],
    );
    if (row === undefined)
      throw new ProblemError('rate_limited', `At most ${TICKETS_PER_ACCOUNT} tickets may be unused at once.`, {
        retryAfterSeconds: VALID_SECONDS,
      });
    return { ticket, expiresAt: row.expires_at };
  }

  /** Redeems the ticket, which can't be used again. Returns its caller; null if it is not valid for the path. */
  async redeem(ticket: string, path: string): Promise<Caller | null> {
    const [row] = await this.database.query<{ caller: StoredCaller }>(
      'delete from access_tickets where hash = $1 and path = $2 and expires_at > clock_timestamp() returning caller',
      [hashOf(ticket), path],
    );
    if (row === undefined) return null;
    const { scopes, expiresAt, ...others } = row.caller;
    return { ...others, scopes: new Set(scopes), expiresAt: expiresAt ?? Infinity };
  }
}

function hashOf(ticket: string): Buffer {
  return createHash('sha256').update(ticket).digest();
}
