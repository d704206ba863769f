import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

import { Injectable } from '@nestjs/common';

import { Database } from '../../../postgres/database/database.ts';
import type { Caller } from '../../../kernel/context/caller.ts';
import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import { type Ticket, Tickets } from '../../../http/auth/tickets.ts';
import { SESSION_KEPT_DAYS } from './viewer-sessions.table.ts';

const SECRET_BYTES = 32;

/** Binds a session to the browser that opens its link first, and issues tickets for connections to that browser. */
@Injectable()
export class ViewerBrowsers {
  constructor(
    private readonly database: Database,
    private readonly tickets: Tickets,
  ) {}

  /**
   * Binds the session to the calling browser, unless it is bound already, and returns the browser's secret. `given` is the secret that
   * the browser has sent. Throws `viewer_taken` if the session is bound to another browser.
   */
  async claim(sessionId: string, given: string | null, expiresAt: Date): Promise<string> {
    await this.database.query(
      `delete from viewer_browsers where expires_at < clock_timestamp() - make_interval(days => ${SESSION_KEPT_DAYS})`,
    );
    // A secret that the browser had before the link was opened is not used, because another page of this host can have set it.
    const secret = randomBytes(SECRET_BYTES).toString('base64url');
    const made = await this.database.query(
      `insert into viewer_browsers (session_id, cookie_hash, expires_at) values ($1, $2, $3)
       on conflict (session_id) do nothing returning session_id`,
      [sessionId, hashOf(secret), expiresAt],
    );
    if (made.length === 1) return secret;
    return this.requireOwner(sessionId, given);
  }

  /** Returns the secret if the session is bound to the browser that has it. Throws `viewer_taken` otherwise. */
  async requireOwner(sessionId: string, secret: string | null): Promise<string> {
    const [row] = await this.database.query<{ cookie_hash: Buffer }>('select cookie_hash from viewer_browsers where session_id = $1', [
      sessionId,
    ]);
    if (row === undefined || secret === null || !timingSafeEqual(row.cookie_hash, hashOf(secret)))
      throw new ProblemError('viewer_taken', 'Another browser has opened this link. Ask for a link of your own.');
    return secret;
  }

  /** Returns a ticket for one connection to the session of the caller. Throws `rate_limited` if the session has too many. */
  issueTicket(caller: Caller): Promise<Ticket> {
    // Each session has a limit of its own, so that the holder of a link can't use up the tickets of the account.
    return this.tickets.issue(caller, pathOf(caller.id), `viewer ${caller.id}`);
  }

  /** Redeems the ticket. Returns its caller; null if the ticket is not valid for the session. */
  redeemTicket(sessionId: string, ticket: string): Promise<Caller | null> {
    return this.tickets.redeem(ticket, pathOf(sessionId));
  }

  /** Returns the times of the last input in these sessions. */
  async lastInputs(sessionIds: readonly string[]): Promise<Map<string, Date>> {
    const rows = await this.database.query<{ session_id: string; last_input_at: Date }>(
      'select session_id, last_input_at from viewer_browsers where session_id = any($1::text[]) and last_input_at is not null',
      [sessionIds],
    );
    return new Map(rows.map(({ session_id, last_input_at }) => [session_id, last_input_at]));
  }
}

/** Returns the path for which a ticket is valid. It does not contain the token of the link, which is never stored. */
function pathOf(sessionId: string): string {
  return `/viewer/${sessionId}/socket`;
}

function hashOf(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}
