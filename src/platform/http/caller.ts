import type { Actor, Position } from '../event-store/event-store.ts';

export const scopes = ['provision', 'deploy', 'manage', 'secrets', 'computers'] as const;
export type Scope = (typeof scopes)[number];

/** The caller: the holder of an API key, or of a session (which has every scope). */
export interface Caller {
  kind: 'api_key' | 'session';
  /** The key's id, or the account's id for a session. */
  id: string;
  /** The session's id; absent for a key. */
  sessionId?: string;
  name: string;
  accountId: string;
  role: 'admin' | 'member';
  scopes: ReadonlySet<Scope>;
  /**
   * The expiry in ms since 1970. `Infinity` or absent means that the credential never expires by itself.
   */
  expiresAt?: number;
}

/** The request that caused a command; it becomes the metadata of the events. */
export interface CommandContext {
  actor: Actor;
  accountId: string | null;
  requestId: string | null;
  causationId: string | null;
  ip: string | null;
  /** The head of the log when the request came, up to which everything was heard here; absent if it is not known. */
  seenUpTo?: Position;
  /** The position of the last event that was written under this context. `Aggregates` sets it, for read-your-writes. */
  writtenUpTo?: Position;
}

/** Returns the context of commands that the service issues by itself; `name` is the part of it. */
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
 * Verifies credentials for the gate; `api-keys` and `accounts` implement it. The methods return null if the credential is not valid, for
 * whatever reason. `isCurrent` is true if everything that was in the log when the request came has been heard here.
 */
export abstract class CredentialVerifier {
  abstract verifyApiKey(rawKey: string, isCurrent: boolean): Promise<Caller | null>;
  abstract verifySession(token: string): Promise<Caller | null>;
}
