import { type ArgumentsHost, Catch, type ExceptionFilter, Logger } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';

import { allowedMethods } from './known-routes.ts';
import { toProblem } from './problems.ts';
import { Refusal } from '../refusal.ts';

/** Answers every error of every route, the framework's own included, as a problem document. */
@Catch()
export class ProblemFilter implements ExceptionFilter {
  private readonly logger = new Logger('Http');

  catch(error: unknown, host: ArgumentsHost): void {
    const http = host.switchToHttp();
    const request = http.getRequest<FastifyRequest>();
    const reply = http.getResponse<FastifyReply>();
    sendProblem(request.is404 ? unknownAddress(request, reply) : error, request, reply, this.logger);
  }
}

/** Sends the problem, or breaks the connection off where the answer has begun already. */
export function sendProblem(error: unknown, request: FastifyRequest, reply: FastifyReply, logger: Logger): void {
  const answer = toProblem(error, request.id);
  if (answer.status === 500) logger.error({ msg: 'request failed', request_id: request.id, err: error });
  else if (answer.status === 503) logger.warn({ msg: 'request refused', request_id: request.id, err: error });
  if (reply.sent || reply.raw.headersSent) {
    reply.raw.destroy();
    return;
  }
  // An answer that a handler had begun to describe must not colour the problem.
  for (const name of ['content-length', 'content-disposition', 'etag', 'link']) reply.removeHeader(name);
  // What is left of a refused body is not read: a further request can't follow it on the same connection.
  if (answer.status === 413 || (hasBody(request) && !request.raw.complete)) reply.header('connection', 'close');
  void reply.status(answer.status).headers(answer.headers).send(JSON.stringify(answer.body));
}

function hasBody({ headers }: FastifyRequest): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

function unknownAddress(request: FastifyRequest, reply: FastifyReply): Refusal {
  const allowed = allowedMethods(request.server, request.url);
  if (allowed.length === 0) return new Refusal('not_found', 'There is nothing at this address.');
  reply.header('allow', allowed.join(', '));
  return new Refusal('method_not_allowed', `The address takes ${allowed.join(', ')}.`);
}
