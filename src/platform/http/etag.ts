import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';

import { Refusal } from '../refusal.ts';

/** Marks the answer with the revision of the resource's stream. */
export function setRevision(reply: FastifyReply, revision: number): void {
  void reply.header('etag', `"${revision}"`);
}

/** The revisions that `If-Match` allows; null where the caller does not care (no header, or `*`). A text that no revision has never matches. */
export function parseIfMatch(header: string | undefined): number[] | null {
  if (header === undefined || header.trim() === '*') return null;
  const tags = header.split(',').map((tag) => /^\s*"(\d{1,15})"\s*$/.exec(tag)?.[1]);
  return tags.flatMap((tag) => (tag === undefined ? [] : [Number(tag)]));
}

/** Throws `revision_mismatch` where the caller expected another revision than the present one. */
export function checkRevision(allowed: readonly number[] | null, present: number): void {
  if (allowed !== null && !allowed.includes(present))
    throw new Refusal('revision_mismatch', `The resource is at revision ${present}.`, { members: { revision: present } });
}

/** The revisions that the caller allows, as a parameter of a handler. */
export const IfMatch = createParamDecorator((_: unknown, context: ExecutionContext): number[] | null =>
  parseIfMatch(context.switchToHttp().getRequest<FastifyRequest>().headers['if-match']),
);
