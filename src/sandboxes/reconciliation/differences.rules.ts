import type { ListedContainer } from '../../runtime/container.ts';
import type { Sandbox } from '../lifecycle/sandbox.rules.ts';
import type { StepRules } from '../lifecycle/steps.rules.ts';
import type { KindRules } from './container-kind.ts';
import type { KnownSandbox } from '../lifecycle/known-sandbox.ts';

/** The containers and the volume of a sandbox in one bulk listing of the engine. */
export interface ListedResources {
  containers: readonly ListedContainer[];
  volume: boolean;
}

/**
 * Returns whether a pass over the sandbox would do something. It applies the rules of the pass, so the two cannot disagree. What a list
 * omits of a container (its exit code, its start time) affects what is recorded, never whether there is something to do. If the engine is
 * unavailable (null), a sandbox needs a pass only if it has a deadline or is being deleted.
 */
export function differs<S extends Sandbox>(
  kind: Pick<KindRules<S, unknown, unknown>, 'nextStep' | 'isBeingDeleted'>,
  { sandbox, lastActiveAt, held, abandonedBy }: Omit<KnownSandbox<S>, 'sandboxId'>,
  listed: ListedResources | null,
  rules: StepRules,
  now: Date,
): boolean {
  if (listed === null) return sandbox.deadlineAt !== null || kind.isBeingDeleted(sandbox);
  const containers = listed.containers.map((container) => ({
    ...container,
    exitCode: null,
    oomKilled: false,
    startedAt: null,
    finishedAt: null,
  }));
  const actual = { containers, volume: listed.volume, held, abandonedBy, lastActiveAt, started: null };
  return kind.nextStep(sandbox, actual, rules, now).do !== 'rest';
}
