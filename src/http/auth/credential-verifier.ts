import type { Caller } from '../../kernel/context/caller.ts';
import type { Position } from '../../eventsourcing/event-store/event-store.ts';

/** A call of an agent's webhook, as far as its headers tell. */
export interface Invoke {
  /** The agent's id, as the path has it. */
  agentId: string;
  /** The tokens that were sent: in the header, in the query, or in both. */
  tokens: readonly string[];
  address: string;
  /** The length of the body, in bytes; 0 if the headers do not tell it. */
  bodyBytes: number;
  /** The head of the log when the request came; absent if it is not known. */
  seenUpTo?: Position | undefined;
}

/** A handshake by which a page connects to a computer, as far as its headers tell. */
export interface Visit {
  /** The token of the link, as the path has it. */
  token: string;
  /** The ticket in the query; null if there is not exactly one. */
  ticket: string | null;
  /** The value of the header; null without it. */
  origin: string | null;
  host: string;
  cookies: string;
}

/**
 * Returns the function that finds the caller of a visit. Throws `unauthenticated` at once, without a question to any store, if the token is not
 * one of the installation.
 */
export type VisitVerifier = (visit: Visit) => () => Promise<Caller>;

/** Returns the sender of a webhook, or throws the refusal of it. */
export type InvokeVerifier = (invoke: Invoke) => Promise<Caller>;

/**
 * Verifies credentials for the gate; `api-keys` and `accounts` implement it. The methods return null if the credential is not valid, for
 * whatever reason. `isCurrent` is true if everything that was in the log when the request came has been heard here.
 */
export abstract class CredentialVerifier {
  abstract verifyApiKey(rawKey: string, isCurrent: boolean): Promise<Caller | null>;
  abstract verifySession(token: string): Promise<Caller | null>;
  private invokes: InvokeVerifier = () => Promise.reject(new Error('nothing verifies the callers of webhooks'));

  private visits: VisitVerifier = () => () => Promise.reject(new Error('nothing verifies the visits of links'));

  /** Sets how the visitors of links are recognised; the feature of computers calls it. */
  registerVisits(verifier: VisitVerifier): void {
    this.visits = verifier;
  }

  verifyVisit(visit: Visit): () => Promise<Caller> {
    return this.visits(visit);
  }

  /** Sets how the senders of webhooks are recognised; the feature of webhooks calls it. */
  registerInvokes(verifier: InvokeVerifier): void {
    this.invokes = verifier;
  }

  verifyInvoke(invoke: Invoke): Promise<Caller> {
    return this.invokes(invoke);
  }
}
