import type { Caller, Scope } from '../../context/caller.ts';
import { Refusal } from '../../errors/refusal.ts';

/** The scopes that a scope includes. */
const includedScopes: Partial<Record<Scope, readonly Scope[]>> = { manage: ['deploy', 'provision'] };

/** Returns whether the scopes include the wanted one, directly or through another. */
export function includesScope(granted: ReadonlySet<Scope>, wanted: Scope): boolean {
  return [...granted].some((scope) => scope === wanted || includedScopes[scope]?.includes(wanted) === true);
}

/** Throws `insufficient_scope` if the caller is a key with none of the scopes. `what` names what needs one of them: "This route". */
export function requireScope({ kind, scopes }: Caller, anyOf: readonly Scope[], what: string): void {
  if (kind !== 'api_key' || anyOf.some((scope) => includesScope(scopes, scope))) return;
  throw new Refusal('insufficient_scope', `${what} needs a key with the scope ${anyOf.join(' or ')}.`, {
    members: { required_scopes: [...anyOf] },
  });
}
