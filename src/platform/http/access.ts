import { createParamDecorator, SetMetadata, type ExecutionContext } from '@nestjs/common';
import type { Position } from '../event-store/event-store.ts';
import type { Caller, CommandContext, Scope } from './caller.ts';
import type { IdempotentTry } from './idempotent-try.ts';

/** What a route asks of its caller. A route that does not say stops the start: nothing is open by oversight. */
export type Access =
  | { kind: 'public' }
  /** A key with one of the scopes, or a session. `manage` includes `deploy` and `provision`. */
  | { kind: 'scope'; anyOf: readonly Scope[] }
  /** Any valid key or session. */
  | { kind: 'caller' }
  | { kind: 'session' }
  | { kind: 'admin' };

export const ACCESS = 'mooring:access';

export const Public = () => SetMetadata(ACCESS, { kind: 'public' } satisfies Access);
export const RequireScope = (...anyOf: Scope[]) => SetMetadata(ACCESS, { kind: 'scope', anyOf } satisfies Access);
export const RequireCaller = () => SetMetadata(ACCESS, { kind: 'caller' } satisfies Access);
export const RequireSession = () => SetMetadata(ACCESS, { kind: 'session' } satisfies Access);
export const RequireAdmin = () => SetMetadata(ACCESS, { kind: 'admin' } satisfies Access);

/** What the gate and the request-id hook leave on the request. */
export interface MooringRequest {
  caller?: Caller;
  /** Resolves when all that was in the log when the request came has been heard here; see `LogFollower.hearHead`. Not on public routes. */
  headHeard?: Promise<Position | null>;
  /** What that resolved to. */
  heardUpTo?: Position;
  requestId: string;
  ip: string;
  /** Of this request's commands; made when a handler first asks for it. */
  commandContext?: CommandContext;
  /** The try that this is of an idempotent request. */
  idempotentTry?: IdempotentTry;
}

/** The caller, as a parameter of a handler. */
export const CurrentCaller = createParamDecorator(
  (_: unknown, context: ExecutionContext): Caller | undefined => context.switchToHttp().getRequest<MooringRequest>().caller,
);

/** The context that this request's commands carry. */
export const Context = createParamDecorator((_: unknown, context: ExecutionContext): CommandContext => {
  const request = context.switchToHttp().getRequest<MooringRequest>();
  request.commandContext ??= contextOf(request);
  return request.commandContext;
});

function contextOf({ caller, requestId, ip, heardUpTo }: MooringRequest): CommandContext {
  const actor = caller
    ? { kind: caller.kind, id: caller.id, name: caller.name }
    : { kind: 'anonymous' as const, id: 'anonymous', name: 'anonymous' };
  return { actor, accountId: caller?.accountId ?? null, requestId, causationId: null, ip, heardUpTo };
}
