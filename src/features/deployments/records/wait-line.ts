import type { Wait } from '../../../kernel/limits/fair-limiter.ts';

const works = { build: 'builds', pull: 'pulls' };

/** Returns the line of a build log that says why a deployment waits, in numbers of its own account alone. */
export function waitLine(kind: 'build' | 'pull', { running, before }: Wait): string {
  const others = running === 0 ? `other ${works[kind]}` : `${running} of this account’s ${works[kind]}`;
  const ahead = before === 0 ? 'it is the next of this account' : `${before} of this account wait before it`;
  return `Waits for a place to ${kind}: ${others} run, and ${ahead}`;
}
