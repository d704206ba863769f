/** One try of a request with an `Idempotency-Key`. */
export interface IdempotentTry {
  /** A UUID, the same for every try. */
  id: string;
  /** Whether none was begun before. An earlier one may have done its work and died before its answer. */
  isFirst: boolean;
}
