import { createParamDecorator, SetMetadata, type ExecutionContext } from '@nestjs/common';
import type { Position } from '../event-store/event-store.ts';
import type { Caller, CommandContext, Scope } from './caller.ts';
import type { IdempotentTry } from './idempotent-try.ts';

/** The access rule of a route. A route without one stops the start, so that none is open by mistake. */
export type Access =
  | { kind: 'public' }
  /** The route takes a key with one of the scopes, or a session. `manage` includes `deploy` and `provision`. */
  | { kind: 'scope'; anyOf: readonly Scope[] }
  /** The route takes any valid key or session. */
  | { kind: 'caller' }
  | { kind: 'session' }
  | { kind: 'admin' };

export const ACCESS = 'mooring:access';

export const Public = () => SetMetadata(ACCESS, { kind: 'public' } satisfies Access);
export const RequireScope = (...anyOf: Scope[]) => SetMetadata(ACCESS, { kind: 'scope', anyOf } satisfies Access);
export const RequireCaller = () => SetMetadata(ACCESS, { kind: 'caller' } satisfies Access);
export const RequireSession = () => SetMetadata(ACCESS, { kind: 'session' } satisfies Access);
export const RequireAdmin = () => SetMetadata(ACCESS, { kind: 'admin' } satisfies Access);

/** The members that the gate and the request-id hook set on the request. */
export interface MooringRequest {
  caller?: Caller;
  /**
   * Resolves when everything that was in the log when the request came has been heard here, with null if the store does not answer (see
   * `LogFollower.catchUpToHead`). It is absent on public routes.
   */
  caughtUp?: Promise<Position | null>;
  /** The position to which `caughtUp` resolved. */
  seenUpTo?: Position;
  requestId: string;
  ip: string;
  /** The context of this request's commands, created when a handler first asks for it. */
  commandContext?: CommandContext;
  /** The try of an idempotent request that this request is. */
  idempotentTry?: IdempotentTry;
}

/** Injects the caller as a parameter of a handler. */
export const CurrentCaller = createParamDecorator(
  (_: unknown, context: ExecutionContext): Caller | undefined => context.switchToHttp().getRequest<MooringRequest>().caller,
);

/** Injects the context of this request's commands. */
export const Context = createParamDecorator((_: unknown, context: ExecutionContext): CommandContext => {
  const request = context.switchToHttp().getRequest<MooringRequest>();
  request.commandContext ??= contextOf(request);
  return request.commandContext;
});

function contextOf({ caller, requestId, ip, seenUpTo }: MooringRequest): CommandContext {
  const actor = caller
    ? { kind: caller.kind, id: caller.id, name: caller.name }
    : { kind: 'anonymous' as const, id: 'anonymous', name: 'anonymous' };
  return { actor, accountId: caller?.accountId ?? null, requestId, causationId: null, ip, seenUpTo };
}
