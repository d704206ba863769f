import type { Caller, Scope } from '../../kernel/context/caller.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import type { Access } from './access.ts';
import { unauthenticated } from './credential.ts';

/** The scopes that a scope includes. */
const includedScopes: Partial<Record<Scope, readonly Scope[]>> = { manage: ['deploy', 'provision'] };

/** Returns whether the scopes include the wanted one, directly or through another. */
export function includesScope(granted: ReadonlySet<Scope>, wanted: Scope): boolean {
  return [...granted].some((scope) => scope === wanted || includedScopes[scope]?.includes(wanted) === true);
}

/**
 * Throws `insufficient_scope` if the caller is a key with none of the scopes. `what` is the subject of the message, such as "This route".
 */
export function requireScope({ kind, scopes }: Caller, anyOf: readonly Scope[], what: string): void {
  if (kind !== 'api_key' || anyOf.some((scope) => includesScope(scopes, scope))) return;
  throw new ProblemError('insufficient_scope', `${what} needs a key with the scope ${anyOf.join(' or ')}.`, {
    members: { required_scopes: [...anyOf] },
  });
}

/** Throws `unauthenticated` or `insufficient_scope` if the access rule of a route does not allow the caller. */
export function requireAccess(access: Access, caller: Caller): void {
  if ((access.kind === 'viewer') !== (caller.kind === 'viewer')) throw unauthenticated('The credential is not one for this route.');
  const needsSession = access.kind === 'session' || access.kind === 'admin';
  if (needsSession && caller.kind !== 'session') throw unauthenticated('This route takes a session token, not an API key.');
  if (access.kind === 'admin' && caller.role !== 'admin')
    throw new ProblemError('insufficient_scope', "This route needs an administrator's session.", { members: { required_role: 'admin' } });
  if (access.kind === 'scope') requireScope(caller, access.anyOf, 'This route');
}

/** Returns whether the access rule of a route allows the caller. */
export function isAllowed(access: Access, caller: Caller): boolean {
  try {
    requireAccess(access, caller);
    return true;
  } catch {
    return false;
  }
}
