import type Dockerode from 'dockerode';

export type Oversized = 'list' | 'events';

/** The number of response parts of each engine that were too long to be read, and the listener for the first of them. */
const known = new WeakMap<Dockerode, { count: number; onFirst: (what: Oversized) => void }>();

/**
 * Calls the function when the first part of a response is skipped. It does not get the content, most of which would be labels of strangers.
 */
export function watchOversized(docker: Dockerode, onFirst: (what: Oversized) => void): void {
  known.set(docker, { count: 0, onFirst });
}

/** Counts a part of a response that was skipped. */
export function noteOversized(docker: Dockerode, what: Oversized): void {
  const found = known.get(docker);
  if (found === undefined) return;
  found.count += 1;
  if (found.count === 1) found.onFirst(what);
}
