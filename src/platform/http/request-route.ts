import type { FastifyRequest } from 'fastify';

/** The pattern of the request's route, for logs and metrics: addresses hold ids, and query strings hold tokens. */
export function routeOf(request: FastifyRequest): string {
  return request.is404 ? 'unknown' : (request.routeOptions.url ?? 'unknown');
}
