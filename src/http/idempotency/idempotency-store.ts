/** A try that this process runs. */
export interface Claim {
  /** The id is the same for every try. */
  id: string;
  owner: string;
  accountId: string;
  keyHash: Buffer;
  /** The value is true if this is the first try. */
  isFirst: boolean;
  /** The subject whose data key seals the response. */
  subject: string;
}

export interface StoredResponse {
  status: number;
  headers: Record<string, string>;
  /** The body as JSON; null if there is none. */
  body: string | null;
}

export type ClaimOutcome =
  | { kind: 'claimed'; claim: Claim }
  | { kind: 'answered'; answer: StoredResponse }
  | { kind: 'running' }
  /** There was a response, but the key that it was sealed under is destroyed. */
  | { kind: 'shredded' }
  | { kind: 'reused' };

/** Stores the first responses of idempotent requests for 24 h. */
export abstract class IdempotencyStore {
  /**
   * Claims the key for one try of the request, or returns why that is not possible. `fingerprint` identifies the request. `answerSubject`
   * is the subject whose data key seals the response, or null for the service's own; it follows from the request.
   */
  abstract claim(accountId: string, key: string, fingerprint: string, answerSubject: string | null): Promise<ClaimOutcome>;
  /** Stores the response for later tries. */
  abstract finish(claim: Claim, answer: StoredResponse): Promise<void>;
  /** Lets another try proceed immediately, under the same id. It may be another request only if `requestStays` is false. */
  abstract release(claim: Claim, requestStays: boolean): Promise<void>;
  /** Deletes the key, whose first try was refused and left no effects, so that unlimited refusals can't fill the table. */
  abstract delete(claim: Claim): Promise<void>;
}
