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
