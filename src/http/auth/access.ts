import { SetMetadata } from '@nestjs/common';

import type { Scope } from '../../kernel/context/caller.ts';

/** The access rule of a route. A route without one stops the start, so that no route is public by mistake. */
export type Access =
  | { kind: 'public' }
  /** The route accepts a key with one of the scopes, or a session. `manage` includes `deploy` and `provision`. */
  | { kind: 'scope'; anyOf: readonly Scope[] }
  /** The route accepts any valid key or session. */
  | { kind: 'caller' }
  | { kind: 'session' }
  /** The route accepts the token of the agent in its path, or no token while calls without one are allowed. */
  | { kind: 'invoke' }
  /** The route accepts the ticket of a link to a computer, whose token is in its path. */
  | { kind: 'viewer' }
  | { kind: 'admin' };

export const ACCESS = 'mooring:access';

/** The metadata key of routes that accept a ticket. */
export const TICKET = 'mooring:ticket';

export const Public = () => SetMetadata(ACCESS, { kind: 'public' } satisfies Access);
export const RequireScope = (...anyOf: Scope[]) => SetMetadata(ACCESS, { kind: 'scope', anyOf } satisfies Access);
export const RequireCaller = () => SetMetadata(ACCESS, { kind: 'caller' } satisfies Access);
export const RequireInvoke = () => SetMetadata(ACCESS, { kind: 'invoke' } satisfies Access);
export const RequireViewer = () => SetMetadata(ACCESS, { kind: 'viewer' } satisfies Access);
export const RequireSession = () => SetMetadata(ACCESS, { kind: 'session' } satisfies Access);
export const RequireAdmin = () => SetMetadata(ACCESS, { kind: 'admin' } satisfies Access);
/** Marks a route that also accepts a ticket for its path, in the query, instead of a credential in a header. */
export const AcceptsTicket = () => SetMetadata(TICKET, true);
