/** One try of a request with an `Idempotency-Key`. */
export interface IdempotentTry {
  /** A UUID that is the same for every try. */
  id: string;
  /** The value is true if no try was begun before. An earlier try may have done its work and died before its response. */
  isFirst: boolean;
}
