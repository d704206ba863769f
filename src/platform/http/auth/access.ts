import { SetMetadata } from '@nestjs/common';

import type { Scope } from '../../context/caller.ts';

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
