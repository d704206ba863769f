import type Dockerode from 'dockerode';

export type Oversized = 'list' | 'events';

/** The number of parts of answers of each engine that were too long to be read, and who is told of the first. */
const known = new WeakMap<Dockerode, { count: number; onFirst: (what: Oversized) => void }>();

/** Has the function called at the first part of an answer that is passed over. Labels are most of what can be so long, so that it is told nothing of it. */
export function watchOversized(docker: Dockerode, onFirst: (what: Oversized) => void): void {
  known.set(docker, { count: 0, onFirst });
}

/** Counts a part of an answer that was passed over. */
export function noteOversized(docker: Dockerode, what: Oversized): void {
  const found = known.get(docker);
  if (found === undefined) return;
  found.count += 1;
  if (found.count === 1) found.onFirst(what);
}
