import type { FastifyRequest } from 'fastify';

import { ProblemError } from '../../kernel/errors/problem-error.ts';

/** Returns the credential of the request, which is in one of the two headers, or the same in both. */
export function credentialOf(request: FastifyRequest): string {
  if (countOf(request, 'authorization') > 1) throw unauthenticated('Two Authorization headers were sent.');
  const { authorization } = request.headers;
  const key = request.headers['x-api-key'];
  const bearer = authorization === undefined ? undefined : /^Bearer +([^\s]+) *$/i.exec(authorization)?.[1];
  if (authorization !== undefined && bearer === undefined)
    throw unauthenticated('The Authorization header must be "Bearer" and a credential.');
  if (key !== undefined && bearer !== undefined && key !== bearer)
    throw unauthenticated('Two credentials were sent, and they are not the same.');
  const credential = bearer ?? key;
  if (typeof credential !== 'string' || credential === '')
    throw unauthenticated('Send X-API-Key: <key>, or Authorization: Bearer <key or session token>.');
  if (!/^m[ks]_/.test(credential)) throw unauthenticated('The credential is neither an API key nor a session token.');
  return credential;
}

/** The header with the token of an agent's webhooks, as Node spells it. */
export const TOKEN_HEADER = 'x-service-webhook-token';

/** Returns the tokens of an agent's webhooks that the request contains, in the header and in the query. Empty ones count as absent. */
export function invokeTokensOf(request: FastifyRequest): string[] {
  const { token } = (request.query ?? {}) as { token?: string | string[] };
  return [request.headers[TOKEN_HEADER], token].flat().filter((each): each is string => each !== undefined && each !== '');
}

/** Counts the headers of this name, because the framework keeps only the first. */
function countOf({ raw: { rawHeaders } }: FastifyRequest, name: string): number {
  let count = 0;
  for (let at = 0; at < rawHeaders.length; at += 2)
    if (rawHeaders[at]?.length === name.length && rawHeaders[at]?.toLowerCase() === name) count += 1;
  return count;
}

export function unauthenticated(detail: string): ProblemError {
  return new ProblemError('unauthenticated', detail);
}
