import type { Scope } from '../../context/caller.ts';

/** The scopes that a scope includes. */
const includedScopes: Partial<Record<Scope, readonly Scope[]>> = { manage: ['deploy', 'provision'] };

/** Returns whether the scopes include the wanted one, directly or through another. */
export function includesScope(granted: ReadonlySet<Scope>, wanted: Scope): boolean {
  return [...granted].some((scope) => scope === wanted || includedScopes[scope]?.includes(wanted) === true);
}
