import { type BeforeApplicationShutdown, Injectable, Logger, type OnModuleInit } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';

import { Clock } from '../../kernel/clock.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import type { MooringRequest } from '../requests/request.ts';
import type { Caller } from '../../kernel/context/caller.ts';
import { sendProblem } from '../responses/problems.filter.ts';

/** The interval at which the credentials in use are checked for expiry, in ms. */
const EXPIRY_CHECK_INTERVAL_MS = 500;
/** The number of ended credentials that are remembered, because a request may be in the gate when its credential ends. */
const ENDS_MAX = 10_000;

interface CredentialUse {
  caller: Caller;
  replies: Set<FastifyReply>;
}

/** Tracks the running requests by their credentials, and ends those of a key or a session that has ended. */
@Injectable()
export class OpenRequests implements OnModuleInit, BeforeApplicationShutdown {
  private readonly logger = new Logger('Http');
  private readonly byCredential = new Map<string, CredentialUse>();
  private readonly ended = new LRUCache<string, true>({ max: ENDS_MAX });
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly clock: Clock) {}

  onModuleInit(): void {
    this.timer = setInterval(() => this.endExpired(), EXPIRY_CHECK_INTERVAL_MS).unref();
  }

  beforeApplicationShutdown(): void {
    clearInterval(this.timer);
  }

  /** Returns the callers of one kind with running requests, one for each key or session. */
  callers(kind: Caller['kind']): Caller[] {
    return [...this.byCredential.values()].map(({ caller }) => caller).filter((caller) => caller.kind === kind);
  }

  /** Adds a request that passed the gate, until its connection ends. Throws `unauthenticated` if the credential has ended meanwhile. */
  add(caller: Caller, reply: FastifyReply): void {
    const id = credentialOf(caller);
    if (this.ended.has(id)) throw credentialEnded(caller);
    if (reply.raw.destroyed) return;
    // The framework reports no end if the caller disconnects before the response.
    reply.raw.once('close', () => this.remove(id, reply));
    const ofCredential = this.byCredential.get(id) ?? { caller, replies: new Set() };
    ofCredential.replies.add(reply);
    this.byCredential.set(id, ofCredential);
  }

  /** Ends the requests of the key or session with this id: streams are cut, and waiting callers get 401. */
  end(id: string): void {
    this.ended.set(id, true);
    const ofCredential = this.byCredential.get(id);
    this.byCredential.delete(id);
    if (ofCredential === undefined) return;
    for (const reply of ofCredential.replies) {
      if ((reply.request as FastifyRequest & MooringRequest).outlivesCredential === true) continue;
      sendProblem(credentialEnded(ofCredential.caller), reply.request, reply, this.logger);
    }
  }

  private remove(id: string, reply: FastifyReply): void {
    const ofCredential = this.byCredential.get(id);
    ofCredential?.replies.delete(reply);
    if (ofCredential?.replies.size === 0) this.byCredential.delete(id);
  }

  private endExpired(): void {
    const now = this.clock.now().getTime();
    for (const [id, { caller }] of this.byCredential) if ((caller.expiresAt ?? Infinity) <= now) this.end(id);
  }
}

/** Returns the id under which the caller's credential ends. */
function credentialOf({ id, sessionId }: Caller): string {
  return sessionId ?? id;
}

function credentialEnded({ kind }: Caller): ProblemError {
  const what = kind === 'api_key' ? 'The key was revoked, or has expired.' : 'The session has ended.';
  return new ProblemError('unauthenticated', `${what} What the request asked for may have been done.`);
}
