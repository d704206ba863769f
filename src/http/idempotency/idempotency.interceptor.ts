import { createHash } from 'node:crypto';

import {
  applyDecorators,
  type CallHandler,
  type ExecutionContext,
  Injectable,
  Logger,
  type NestInterceptor,
  SetMetadata,
  StreamableFile,
  UseInterceptors,
} from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { from, lastValueFrom, type Observable } from 'rxjs';

import type { Caller } from '../../kernel/context/caller.ts';
import type { MooringRequest } from '../requests/request.ts';
import { type Claim, type StoredResponse, IdempotencyStore } from './idempotency-store.ts';
import { POSITION_HEADER } from '../responses/position-header.ts';
import { problems, toProblemError } from '../responses/problems.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';

export const IDEMPOTENT = 'mooring:idempotent';

export interface IdempotentOptions {
  /**
   * The route's parameter with the id of an agent or a computer whose data key seals the response, so that its deletion shreds the
   * response.
   */
  sealedFor?: string;
  /** The text before the id in the name of the data key. */
  sealedAs?: string;
}

/** Marks a POST that creates something. With an `Idempotency-Key` it creates it only once, and every repeat gets the first response. */
export const Idempotent = (options: IdempotentOptions = {}) =>
  applyDecorators(SetMetadata(IDEMPOTENT, options), UseInterceptors(IdempotencyInterceptor));

type Request = FastifyRequest & MooringRequest;

/** The headers that are stored with a response; other headers belong to a single transmission. */
const storedHeaders = ['etag', 'location', 'preference-applied', 'x-agent-woken', 'retry-after'];

@Injectable()
export class IdempotencyInterceptor implements NestInterceptor {
  private readonly logger = new Logger('Idempotency');

  constructor(
    private readonly reflector: Reflector,
    private readonly store: IdempotencyStore,
  ) {}

  async intercept(context: ExecutionContext, next: CallHandler): Promise<Observable<unknown>> {
    const http = context.switchToHttp();
    const request = http.getRequest<Request>();
    const key = request.headers['idempotency-key'];
    const options = this.reflector.get<IdempotentOptions | undefined>(IDEMPOTENT, context.getHandler());
    if (options === undefined || key === undefined || request.caller === undefined) return next.handle();
    if (typeof key !== 'string' || !/^[\x21-\x7e]{1,255}$/.test(key))
      throw new ProblemError('invalid_request', 'The Idempotency-Key must be 1 to 255 printable ASCII characters without spaces.', {
        errors: [{ field: 'Idempotency-Key', message: 'must be 1 to 255 printable ASCII characters without spaces' }],
      });
    const subject = subjectOf(options, request);
    const outcome = await this.store.claim(ownerOf(request.caller), key, fingerprintOf(request), subject);
    // The handler itself reports that the agent no longer exists.
    if (outcome.kind === 'shredded') return next.handle();
    if (outcome.kind === 'claimed') return from(this.run(outcome.claim, request, http.getResponse<FastifyReply>(), next));
    if (outcome.kind === 'answered') return from(Promise.resolve(replay(outcome.answer, http.getResponse<FastifyReply>())));
    if (outcome.kind === 'reused') throw new ProblemError('idempotency_key_reused', 'This Idempotency-Key was used for another request.');
    throw new ProblemError('idempotency_in_progress', 'The first request with this Idempotency-Key is still running.', {
      retryAfterSeconds: 1,
    });
  }

  private async run(claim: Claim, request: Request, reply: FastifyReply, next: CallHandler): Promise<unknown> {
    request.idempotentAttempt = { id: claim.id, isFirst: claim.isFirst };
    try {
      const body: unknown = await lastValueFrom(next.handle(), { defaultValue: undefined });
      if (isStream(body) || reply.sent) await this.store.release(claim, true);
      else await this.storeResponse(claim, responseOf(request, reply, body));
      return body;
    } catch (error) {
      // A refusal means that the request is wrong, so a corrected one may follow. Any other failure may have left partial work.
      const refused = problems[toProblemError(error).code].status < 500;
      const leftNothing = refused && claim.isFirst && request.commandContext?.writtenUpTo === undefined;
      const released = leftNothing ? this.store.delete(claim) : this.store.release(claim, !refused);
      await released.catch((reason: unknown) => this.logger.warn({ msg: 'claim not released', err: reason }));
      throw error;
    }
  }

  /** Stores the response. The work itself is done and stored, so a failure here only means that a repeat runs the handler again. */
  private async storeResponse(claim: Claim, answer: StoredResponse): Promise<void> {
    try {
      await this.store.finish(claim, answer);
    } catch (error) {
      this.logger.warn({ msg: 'the answer of an idempotent request could not be kept', err: error });
    }
  }
}

/**
 * Returns the owner of the key. The senders of an agent's webhooks can't use up the keys of its account, and each has keys of its own: the
 * request of an unknown sender is never the first try of one with the token, nor of another unknown sender's.
 */
function ownerOf({ kind, id, accountId, webhook }: Caller): string {
  return kind === 'webhook' ? `webhooks of ${id} by ${webhook?.budget ?? ''}` : accountId;
}

/** Returns the subject whose data key seals the response; null stands for the service's own. */
function subjectOf({ sealedFor, sealedAs = '' }: IdempotentOptions, request: Request): string | null {
  if (sealedFor === undefined) return null;
  return sealedAs + String((request.params as Record<string, unknown>)[sealedFor]).toLowerCase();
}

function fingerprintOf(request: Request): string {
  const hash = createHash('sha256').update(`${request.method} ${request.url}\n`);
  if (Buffer.isBuffer(request.body)) return hash.update(request.body).digest('hex');
  // A streamed body is not read for this, so repeats are compared by its length alone.
  const body = isStream(request.body) ? { length: request.headers['content-length'] ?? null } : (request.body ?? null);
  return hash.update(JSON.stringify(body)).digest('hex');
}

function responseOf({ commandContext }: Request, reply: FastifyReply, body: unknown): StoredResponse {
  const headers: Record<string, string> = {};
  if (commandContext?.writtenUpTo !== undefined) headers[POSITION_HEADER] = commandContext.writtenUpTo;
  for (const name of storedHeaders) {
    const value = reply.getHeader(name);
    if (value !== undefined) headers[name] = String(value);
  }
  return { status: reply.statusCode, headers, body: body === undefined ? null : JSON.stringify(body) };
}

function replay(answer: StoredResponse, reply: FastifyReply): unknown {
  void reply.status(answer.status).headers({ ...answer.headers, 'idempotency-replayed': 'true' });
  return answer.body === null ? undefined : (JSON.parse(answer.body) as unknown);
}

function isStream(body: unknown): boolean {
  return body instanceof StreamableFile || (typeof body === 'object' && body !== null && ('pipe' in body || Symbol.asyncIterator in body));
}
