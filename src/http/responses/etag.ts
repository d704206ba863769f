import { ProblemError } from '../../kernel/errors/problem-error.ts';

/**
 * Returns the revisions that `If-Match` allows, or null if any is allowed (no header, or `*`). A text that is not a revision never matches.
 */
export function parseIfMatch(header: string | undefined): number[] | null {
  if (header === undefined || header.trim() === '*') return null;
  const tags = header.split(',').map((tag) => /^\s*"(\d{1,15})"\s*$/.exec(tag)?.[1]);
  return tags.flatMap((tag) => (tag === undefined ? [] : [Number(tag)]));
}

/** Throws `revision_mismatch` if the caller does not allow the current revision. */
export function checkRevision(allowed: readonly number[] | null, present: number): void {
  if (allowed !== null && !allowed.includes(present))
    throw new ProblemError('revision_mismatch', `The resource is at revision ${present}.`, { members: { revision: present } });
}
