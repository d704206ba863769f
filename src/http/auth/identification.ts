import { Injectable } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';

import type { Caller } from '../../kernel/context/caller.ts';
import type { MooringRequest } from '../requests/request.ts';
import type { Access } from './access.ts';
import { credentialOf, invokeTokensOf, unauthenticated } from './credential.ts';
import { CredentialVerifier, type Visit } from './credential-verifier.ts';
import { Tickets } from './tickets.ts';

type Request = FastifyRequest & MooringRequest;

/** The rules of a route that decide how its caller is identified. */
interface AccessRules {
  access: Access | undefined;
  takesTicket: boolean;
}

/** Identifies the sender of a request. */
@Injectable()
export class Identification {
  constructor(
    private readonly verifier: CredentialVerifier,
    private readonly tickets: Tickets,
  ) {}

  /**
   * Returns a function that finds the caller, by the credential in the headers, by the ticket in the query of a route that accepts one, by
   * the token of the agent's webhooks, or by that of a link; it throws `unauthenticated`. This method throws that too, immediately and
   * without a query, if no credential was sent. See `CredentialVerifier` for `isCurrent`.
   */
  callerOf(request: Request, { access, takesTicket }: AccessRules): (isCurrent: boolean) => Promise<Caller> {
    if (access?.kind === 'invoke') return () => this.senderOf(request);
    if (access?.kind === 'viewer') return this.verifier.verifyVisit(visitOf(request));
    const { ticket } = request.query as Record<string, unknown>;
    if (takesTicket && ticket !== undefined) return () => this.holderOf(request, ticket);
    const credential = credentialOf(request);
    return (isCurrent) => this.bearerOf(credential, isCurrent);
  }

  private async bearerOf(credential: string, isCurrent: boolean): Promise<Caller> {
    const caller = credential.startsWith('mk_')
      ? await this.verifier.verifyApiKey(credential, isCurrent)
      : await this.verifier.verifySession(credential);
    if (caller === null) throw unauthenticated('The credential is not valid: unknown, revoked or expired.');
    return caller;
  }

  private senderOf(request: Request): Promise<Caller> {
    const { agentId = '' } = request.params as { agentId?: string };
    const bodyBytes = Number(request.headers['content-length'] ?? 0);
    const { ip: address, seenUpTo } = request;
    return this.verifier.verifyInvoke({ agentId, tokens: invokeTokensOf(request), address, bodyBytes, seenUpTo });
  }

  private async holderOf({ headers, url }: FastifyRequest, ticket: unknown): Promise<Caller> {
    if (headers.authorization !== undefined || headers['x-api-key'] !== undefined)
      throw unauthenticated('A ticket and another credential were sent. Send one of them.');
    const path = (url.split('?', 1)[0] ?? '').toLowerCase();
    const caller = typeof ticket === 'string' ? await this.tickets.redeem(ticket, path) : null;
    if (caller === null) throw unauthenticated('The ticket is not valid: unknown, used, expired, or for another address.');
    return caller;
  }
}

function visitOf({ params, query, headers }: Request): Visit {
  const { token = '' } = params as { token?: string };
  const { ticket } = query as Record<string, unknown>;
  const { origin = null, host = '', cookie = '' } = headers;
  return { token, ticket: typeof ticket === 'string' ? ticket : null, origin, host, cookies: cookie };
}
