import { Injectable, type OnModuleInit } from '@nestjs/common';

import { Config } from '../../../kernel/config/config.ts';
import type { Caller } from '../../../kernel/context/caller.ts';
import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import { CredentialVerifier, type Visit } from '../../../http/auth/credential-verifier.ts';
import type { Ticket } from '../../../http/auth/tickets.ts';
import type { RequestContext } from '../../../http/server/request-context.ts';
import { isOwnOrigin } from '../../../http/requests/origins.ts';
import { withoutLast } from '../../../kernel/text/without-last.ts';
import { ViewerBrowsers } from './viewer-browsers.service.ts';
import { ViewerLinks } from './viewer-links.service.ts';
import { ViewerRecords } from './viewer-records.service.ts';
import type { ViewerLink } from './viewer-token.ts';
import { openSession } from './viewers.decider.ts';
import type { ViewerMode } from './viewers.events.ts';

const VIEWER_COOKIE = 'mooring_viewer';

export interface Visitor {
  ticket: Ticket;
  mode: ViewerMode;
}

/**
 * Admits the browser that opened a session's link first. The page requests a ticket and connects with it; programs that merely fetch a
 * link do not.
 */
@Injectable()
export class ViewerVisits implements OnModuleInit {
  constructor(
    private readonly config: Config,
    private readonly links: ViewerLinks,
    private readonly records: ViewerRecords,
    private readonly browsers: ViewerBrowsers,
    private readonly verifier: CredentialVerifier,
  ) {}

  onModuleInit(): void {
    this.verifier.registerVisits((visit) => {
      const link = this.links.require(visit.token);
      return () => this.callerOf(link, visit);
    });
  }

  /**
   * Returns a ticket for one connection to the session. Throws `origin_not_allowed` unless the viewer page requests it,
   * `unauthenticated`, `session_closed`, `viewer_taken` and `rate_limited`.
   */
  async ticketFor(token: string, call: RequestContext): Promise<Visitor> {
    this.requireOwnPage(call);
    const link = this.links.require(token);
    const state = await this.records.load(link.computerId);
    const session = openSession(state, link.sessionId, new Date());
    const secret = await this.browsers.claim(link.sessionId, secretIn(String(call.headers.cookie ?? '')), new Date(link.expiresAt));
    const caller: Caller = {
      kind: 'viewer',
      id: session.id,
      name: session.label ?? 'viewer',
      accountId: state?.accountId ?? '',
      role: 'member',
      scopes: new Set(),
    };
    const ticket = await this.browsers.issueTicket(caller);
    call.setHeader('set-cookie', this.cookie(token, secret, link));
    return { ticket, mode: session.mode };
  }

  /** Throws `origin_not_allowed`, `viewer_taken`, and `unauthenticated` if the ticket is not valid for the session. */
  private async callerOf(link: ViewerLink, { ticket, origin, host, cookies }: Visit): Promise<Caller> {
    if (origin === null || !isOwnOrigin(origin, host, this.config.baseUrl)) throw foreignPage();
    await this.browsers.requireOwner(link.sessionId, secretIn(cookies));
    const caller = ticket === null ? null : await this.browsers.redeemTicket(link.sessionId, ticket);
    if (caller === null)
      throw new ProblemError('unauthenticated', 'The ticket is not valid: unknown, used, expired, or for another session.');
    return caller;
  }

  private requireOwnPage(call: RequestContext): void {
    const { origin, 'sec-fetch-site': site } = call.headers;
    const isOwn = typeof origin === 'string' && isOwnOrigin(origin, String(call.headers.host ?? ''), this.config.baseUrl);
    if (!isOwn || (site !== undefined && site !== 'same-origin')) throw foreignPage();
  }

  /**
   * Returns the cookie that identifies the browser, on the paths of this link only. A browser keeps it in a frame of another site only
   * with `SameSite=None`, which is set if the operator allows such frames.
   */
  private cookie(token: string, secret: string, { expiresAt }: ViewerLink): string {
    const { baseUrl, viewerFrameAncestors } = this.config;
    const isSecure = baseUrl?.startsWith('https:') ?? false;
    const inFrames = isSecure && viewerFrameAncestors.length > 0;
    const prefix = baseUrl === null ? '' : withoutLast('/', new URL(baseUrl).pathname);
    const seconds = Math.max(0, Math.ceil((expiresAt - Date.now()) / 1_000));
    const parts = [`${VIEWER_COOKIE}=${secret}`, `Path=${prefix}/viewer/${token}`, `Max-Age=${seconds}`, 'HttpOnly'];
    parts.push(...(inFrames ? ['SameSite=None', 'Partitioned'] : ['SameSite=Strict']), ...(isSecure ? ['Secure'] : []));
    return parts.join('; ');
  }
}

/** Returns the secret of the browser in a Cookie header; null without one. */
function secretIn(cookies: string): string | null {
  return /(?:^|; *)mooring_viewer=([A-Za-z0-9_-]{43})(?:;|$)/.exec(cookies)?.[1] ?? null;
}

function foreignPage(): ProblemError {
  return new ProblemError('origin_not_allowed', 'Only the page of the link itself may connect to it.');
}
