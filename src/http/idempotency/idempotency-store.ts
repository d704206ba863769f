/** A try that this process runs. */
export interface Claim {
  /** The id is the same for every try. */
  id: string;
  owner: string;
  accountId: string;
  keyHash: Buffer;
  /** The value is true if no try was begun before. */
  isFirst: boolean;
  /** The subject whose data key seals the response. */
  subject: string;
}

export interface StoredAnswer {
  status: number;
  headers: Record<string, string>;
  /** The body as JSON; null if there is none. */
  body: string | null;
}

export type ClaimOutcome =
  | { kind: 'claimed'; claim: Claim }
  | { kind: 'answered'; answer: StoredAnswer }
  | { kind: 'running' }
  /** There was a response, but it was sealed under a key that is destroyed. */
  | { kind: 'shredded' }
  | { kind: 'reused' };

/** Keeps the first responses of idempotent requests for 24 h. */
export abstract class IdempotencyStore {
  /**
   * Claims the key for one try of the request, or returns why that is not possible. `fingerprint` distinguishes requests. `answerSubject`
   * is the subject whose data key seals the response, null for our own; it follows from the request.
   */
  abstract claim(accountId: string, key: string, fingerprint: string, answerSubject: string | null): Promise<ClaimOutcome>;
  /** Stores the response for later tries. */
  abstract finish(claim: Claim, answer: StoredAnswer): Promise<void>;
  /** Lets another try proceed at once, under the same id. It may be with another request only if `requestStays` is false. */
  abstract release(claim: Claim, requestStays: boolean): Promise<void>;
  /** Forgets the key, whose first try was refused and left nothing: refusals without number must not fill the table. */
  abstract forget(claim: Claim): Promise<void>;
}
