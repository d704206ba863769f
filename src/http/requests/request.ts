import type { Caller } from '../../kernel/context/caller.ts';
import type { CommandContext } from '../../kernel/context/command-context.ts';
import type { Position } from '../../eventsourcing/event-store/event-store.ts';
import { NETWORK_BITS, networkOf } from '../../kernel/network/network-of.ts';

/** One try of a request with an `Idempotency-Key`. */
export interface IdempotentAttempt {
  /** A UUID that is the same for every try. */
  id: string;
  /** The value is true if this is the first try. An earlier try may have done its work and died before its response. */
  isFirst: boolean;
}

/** The members that the gate and the request-id hook set on the request. */
export interface MooringRequest {
  caller?: Caller;
  /**
   * Resolves once everything that was in the log when the request arrived has been received here, or with null if the store does not
   * respond (see `LogFollower.catchUpToHead`). It is absent on public routes.
   */
  caughtUp?: Promise<Position | null>;
  /** The position to which `caughtUp` resolved. */
  seenUpTo?: Position;
  requestId: string;
  ip: string;
  /** The context of this request's commands, created when a handler first asks for it. */
  commandContext?: CommandContext;
  /** The request revokes the credential that it was made with (sign-out, key deletion), and still gets a response. */
  outlivesCredential?: boolean;
  /** The length of the body in bytes, if it was large and was read. */
  largeBody?: number;
  /** The try of an idempotent request that this request is; absent without a key. */
  idempotentAttempt?: IdempotentAttempt;
}

/** Returns the context of the request's commands, which is created at first use. */
export function contextOf(request: MooringRequest): CommandContext {
  request.commandContext ??= newContext(request);
  return request.commandContext;
}

function newContext({ caller, requestId, ip, seenUpTo }: MooringRequest): CommandContext {
  const actor = caller
    ? { kind: caller.kind, id: caller.id, name: caller.name }
    : { kind: 'anonymous' as const, id: 'anonymous', name: 'anonymous' };
  return { actor, accountId: caller?.accountId ?? null, requestId, causationId: null, ip, seenUpTo };
}

/**
 * Returns the share of the process that the request counts for; null for an unknown caller. The webhooks of an account have a share of
 * their own, and those without a token another one, since anybody may send them.
 */
export function shareOf({ caller }: Pick<MooringRequest, 'caller'>): string | null {
  if (caller?.kind !== 'webhook') return caller?.accountId ?? null;
  return isTokenless({ caller }) ? `webhooks without a token of ${caller.accountId}` : `webhooks of ${caller.accountId}`;
}

/** Returns true for a webhook without a token. */
export function isTokenless({ caller }: Pick<MooringRequest, 'caller'>): boolean {
  return caller?.webhook?.hasToken === false;
}

/** Returns the share that the request counts for: that of its network if its caller is unknown. */
export function shareOrNetworkOf(request: Pick<MooringRequest, 'caller' | 'ip'>): string {
  return shareOf(request) ?? `network ${networkOf(request.ip, NETWORK_BITS)}`;
}
