export const scopes = ['provision', 'deploy', 'manage', 'secrets', 'computers'] as const;
export type Scope = (typeof scopes)[number];

/** The refusal of a caller whose budget is exhausted, and the time for which it is refused. */
export interface ExhaustedBudget {
  detail: string;
  retryAfterSeconds: number;
}

/**
 * The caller: the holder of an API key, or of a session (which has every scope), the sender of a webhook to an agent of the account, or a
 * visitor with a link to a computer.
 */
export interface Caller {
  kind: 'api_key' | 'session' | 'webhook' | 'viewer';
  /** The key's id, the account's id for a session, the agent's id for a webhook, or the id of the session of a link. */
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
  /**
   * The sender of a webhook: the budget that its messages count against, whether it sent the agent's token, and its refusal if the budget
   * is exhausted.
   */
  webhook?: { budget: string; hasToken: boolean; refusal?: ExhaustedBudget };
}
