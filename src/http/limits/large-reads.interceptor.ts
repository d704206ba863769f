import {
  applyDecorators,
  type CallHandler,
  type ExecutionContext,
  Injectable,
  type NestInterceptor,
  UseInterceptors,
} from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { from, lastValueFrom, type Observable } from 'rxjs';

import { ProblemError } from '../../kernel/errors/problem-error.ts';
import type { MooringRequest } from '../requests/request.ts';
import { LargeReads } from './large-reads.ts';

/** Marks a GET whose response may have a megabyte: it waits for its account's turn, and is refused with `rate_limited` after 30 s. */
export const LargeRead = () => applyDecorators(UseInterceptors(LargeReadsInterceptor));

@Injectable()
export class LargeReadsInterceptor implements NestInterceptor {
  constructor(private readonly reads: LargeReads) {}

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const http = context.switchToHttp();
    return from(this.run(http.getRequest<FastifyRequest & MooringRequest>(), http.getResponse<FastifyReply>(), next));
  }

  private async run(request: FastifyRequest & MooringRequest, { raw }: FastifyReply, next: CallHandler): Promise<unknown> {
    const end = new AbortController();
    const leave = () => end.abort(new ProblemError('invalid_request', 'The caller closed the connection.'));
    const giveUp = () =>
      end.abort(new ProblemError('rate_limited', 'Too many large pages of this account are read at once.', { retryAfterSeconds: 1 }));
    const timer = setTimeout(giveUp, this.reads.patienceMs);
    raw.once('close', leave);
    try {
      return await this.reads.run(request, end.signal, () => {
        clearTimeout(timer);
        return lastValueFrom(next.handle(), { defaultValue: undefined });
      });
    } finally {
      clearTimeout(timer);
      raw.off('close', leave);
    }
  }
}
