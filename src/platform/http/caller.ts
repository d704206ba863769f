import type { Actor, Position } from '../event-store/event-store.ts';

export const scopes = ['provision', 'deploy', 'manage', 'secrets', 'computers'] as const;
export type Scope = (typeof scopes)[number];

/** Who calls: the holder of an API key, or of a session (which has every scope). */
export interface Caller {
  kind: 'api_key' | 'session';
  /** The key's id, or the account's id for a session. */
  id: string;
  name: string;
  accountId: string;
  role: 'admin' | 'member';
  scopes: ReadonlySet<Scope>;
  /** Ms since 1970; `Infinity` or absent: the credential never ends by itself, or is looked up for each request. */
  expiresAt?: number;
}

/** What every command carries of the request that caused it; it becomes the metadata of the events. */
export interface CommandContext {
  actor: Actor;
  accountId: string | null;
  requestId: string | null;
  causationId: string | null;
  ip: string | null;
  /** The log's end as it was when the request came, all of which was heard here; absent where that is not known. */
  heardUpTo?: Position;
  /** Position of the last event that was written under this context; `Aggregates` keeps it, for read-your-writes. */
  writtenUpTo?: Position;
}

/** The context of what the service does by itself: `name` says which part of it. */
export function systemContext(name: string, accountId: string | null, causationId: string | null = null): CommandContext {
  return {
    actor: { kind: 'system', id: name, name },
    accountId,
    requestId: null,
    causationId,
    ip: null,
  };
}

/**
 * The gate asks it; `api-keys` and `accounts` fulfil it. Null: not valid, for whatever reason. `isCurrent`: whether all that was in the log
 * when the request came has been heard here.
 */
export abstract class CredentialVerifier {
  abstract verifyApiKey(rawKey: string, isCurrent: boolean): Promise<Caller | null>;
  abstract verifySession(token: string): Promise<Caller | null>;
}
