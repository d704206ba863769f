import { type ArgumentsHost, Catch, type ExceptionFilter, Logger } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';

import { allowedMethods } from '../requests/known-routes.ts';
import { toProblem } from './problems.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';

/** Responds to every error of every route, the framework's own included, with a problem document. */
@Catch()
export class ProblemsFilter implements ExceptionFilter {
  private readonly logger = new Logger('Http');

  catch(error: unknown, host: ArgumentsHost): void {
    const http = host.switchToHttp();
    const request = http.getRequest<FastifyRequest>();
    const reply = http.getResponse<FastifyReply>();
    sendProblem(request.is404 ? unknownAddress(request, reply) : error, request, reply, this.logger);
  }
}

/** Sends the problem, or destroys the connection if the response has begun already. */
export function sendProblem(error: unknown, request: FastifyRequest, reply: FastifyReply, logger: Logger): void {
  const answer = toProblem(error, request.id);
  if (answer.status === 500) logger.error({ msg: 'request failed', request_id: request.id, err: error });
  else if (answer.status === 503) logger.warn({ msg: 'request refused', request_id: request.id, err: error });
  if (reply.sent || reply.raw.headersSent) {
    reply.raw.destroy();
    return;
  }
  // The headers that a handler set for its own response must not be sent with the problem.
  for (const name of ['content-length', 'content-disposition', 'etag', 'link']) reply.removeHeader(name);
  // The rest of a refused body is not read, so no other request can follow on the same connection.
  if (answer.status === 413 || (hasBody(request) && !request.raw.complete)) reply.header('connection', 'close');
  void reply.status(answer.status).headers(answer.headers).send(JSON.stringify(answer.body));
}

function hasBody({ headers }: FastifyRequest): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

function unknownAddress(request: FastifyRequest, reply: FastifyReply): ProblemError {
  const allowed = allowedMethods(request.server, request.url);
  if (allowed.length === 0) return new ProblemError('not_found', 'There is nothing at this address.');
  reply.header('allow', allowed.join(', '));
  return new ProblemError('method_not_allowed', `The address accepts only the methods ${allowed.join(', ')}.`);
}
