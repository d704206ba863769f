import { Injectable, type OnModuleInit } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import type { MooringRequest } from '../requests/request.ts';
import { Identification } from './identification.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { hostFault } from '../requests/host.ts';
import { OpenRequests } from './open-requests.ts';
import { Positions } from '../responses/positions.ts';
import { RouteTable } from './route-table.ts';
import { requireAccess } from './scopes.ts';

/**
 * The only gate in front of all routes. It decides by the headers alone, so nothing of the body of a refused caller is read. It refuses
 * every request that the route's access rule does not allow.
 */
@Injectable()
export class AuthGuard implements OnModuleInit {
  constructor(
    private readonly host: HttpAdapterHost,
    private readonly routes: RouteTable,
    private readonly identification: Identification,
    private readonly positions: Positions,
    private readonly requests: OpenRequests,
  ) {}

  onModuleInit(): void {
    const server = this.host.httpAdapter.getInstance<FastifyInstance>();
    server.addHook('onRequest', (request: FastifyRequest & MooringRequest, reply) => this.authorize(request, reply));
    server.addHook('onSend', (request: FastifyRequest & MooringRequest, reply, payload, done) => {
      this.positions.setPositionHeader(request, reply);
      done(null, payload);
    });
  }

  private async authorize(request: FastifyRequest & MooringRequest, reply: FastifyReply): Promise<void> {
    const { rawHeaders, httpVersion } = request.raw;
    const fault = hostFault({ rawHeaders, httpVersion, target: request.originalUrl });
    if (fault !== null) throw new ProblemError('invalid_request', fault);
    if (request.is404) throw new ProblemError('not_found', 'There is nothing at this address.');
    const rules = this.routes.rulesOf(request);
    const { access, readModels } = rules;
    if (access?.kind !== 'public') {
      // The request of an unknown caller causes no query of the event store.
      const identify = this.identification.callerOf(request, rules);
      const caller = await identify(await this.positions.catchUpToHead(request));
      if (access === undefined) throw new ProblemError('insufficient_scope', 'This route is open to nobody.');
      // A caller without the scope does not learn what exists.
      requireAccess(access, caller);
      const refusal = caller.webhook?.refusal;
      if (refusal !== undefined) {
        // The refusals of all callers without a token count for one share of the account, however many addresses they have.
        request.caller = caller;
        throw new ProblemError('rate_limited', refusal.detail, { retryAfterSeconds: refusal.retryAfterSeconds });
      }
      this.requests.add(caller, reply);
      request.caller = caller;
    }
    await this.positions.waitForReadModels(request, readModels);
  }
}
