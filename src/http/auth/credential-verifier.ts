import type { Caller } from '../../kernel/context/caller.ts';
import type { Position } from '../../eventsourcing/event-store/event-store.ts';

/** A call of an agent's webhook, as described by its headers. */
export interface Invoke {
  /** The agent's id, from the path. */
  agentId: string;
  /** The tokens that were sent: in the header, in the query, or in both. */
  tokens: readonly string[];
  address: string;
  /** The length of the body in bytes; 0 if the headers do not say it. */
  bodyBytes: number;
  /** The head of the log when the request arrived; absent if it is unknown. */
  seenUpTo?: Position | undefined;
}

/** A handshake by which a page connects to a computer, as described by its headers. */
export interface Visit {
  /** The token of the link, from the path. */
  token: string;
  /** The ticket in the query; null if there is not exactly one. */
  ticket: string | null;
  /** The value of the header; null without the header. */
  origin: string | null;
  host: string;
  cookies: string;
}

/**
 * Returns a function that finds the caller of a visit. Throws `unauthenticated` immediately, without a query, if the token does not belong
 * to this installation.
 */
export type VisitVerifier = (visit: Visit) => () => Promise<Caller>;

/** Returns the sender of a webhook, or throws its refusal. */
export type InvokeVerifier = (invoke: Invoke) => Promise<Caller>;

/**
 * Verifies credentials for the gate; `api-keys` and `accounts` implement it. The methods return null if the credential is not valid, for
 * whatever reason. `isCurrent` is true if everything that was in the log when the request arrived has been received here.
 */
export abstract class CredentialVerifier {
  abstract verifyApiKey(rawKey: string, isCurrent: boolean): Promise<Caller | null>;
  abstract verifySession(token: string): Promise<Caller | null>;
  private invokes: InvokeVerifier = () => Promise.reject(new Error('no verifier of webhooks is registered'));

  private visits: VisitVerifier = () => () => Promise.reject(new Error('no verifier of links is registered'));

  /** Sets how the visitors of links are verified; the feature of computers calls it. */
  registerVisits(verifier: VisitVerifier): void {
    this.visits = verifier;
  }

  verifyVisit(visit: Visit): () => Promise<Caller> {
    return this.visits(visit);
  }

  /** Sets how the senders of webhooks are verified; the feature of webhooks calls it. */
  registerInvokes(verifier: InvokeVerifier): void {
    this.invokes = verifier;
  }

  verifyInvoke(invoke: Invoke): Promise<Caller> {
    return this.invokes(invoke);
  }
}
