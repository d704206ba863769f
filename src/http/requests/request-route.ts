import type { FastifyRequest } from 'fastify';

/** Returns the pattern of the request's route, for logs and metrics, since addresses contain ids, and query strings contain tokens. */
export function routeOf(request: FastifyRequest): string {
  return request.is404 ? 'unknown' : (request.routeOptions.url ?? 'unknown');
}
