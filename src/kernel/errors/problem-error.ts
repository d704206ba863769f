/** The stable error codes that a caller can get. `http/responses/problems.ts` gives each its status and title; docs/reference/errors.md explains them. */
export const errorCodes = [
  'invalid_request',
  'secret_not_found',
  'invalid_action',
  'coordinate_out_of_bounds',
  'unknown_key',
  'batch_too_long',
  'unauthenticated',
  'plan_required',
  'seat_limit',
  'computer_limit',
  'insufficient_scope',
  'registration_closed',
  'origin_not_allowed',
  'agent_not_found',
  'computer_not_found',
  'env_var_not_found',
  'file_not_found',
  'template_not_found',
  'key_not_found',
  'account_not_found',
  'conversation_not_found',
  'session_not_found',
  'session_closed',
  'not_found',
  'method_not_allowed',
  'computer_conflict',
  'computer_asleep',
  'human_in_control',
  'session_connected',
  'deploy_in_progress',
  'agent_unavailable',
  'file_exists',
  'account_exists',
  'secret_in_use',
  'idempotency_in_progress',
  'invalid_state',
  'viewer_taken',
  'volume_root_protected',
  'path_outside_volume',
  'payload_too_large',
  'volume_full',
  'unsupported_media_type',
  'range_not_satisfiable',
  'not_acceptable',
  'idempotency_key_reused',
  'wait_timeout',
  'revision_mismatch',
  'rate_limited',
  'busy',
  'agent_failed',
  'desktop_unreachable',
  'runtime_unavailable',
  'capacity',
  'desktop_unavailable',
  'event_store_unavailable',
  'read_model_behind',
  'reply_timeout',
  'desktop_timeout',
  'internal_error',
] as const;

export type ErrorCode = (typeof errorCodes)[number];

export interface FieldError {
  field: string;
  message: string;
  /** The index of the invalid item in a list that was sent; null if the field is not in a list. */
  index?: number | null;
}

export interface ProblemFacts {
  /** Every invalid field, for `invalid_request` and for actions that are refused. */
  errors?: FieldError[];
  /** The whole seconds after which the same call may succeed; it becomes `Retry-After`. */
  retryAfterSeconds?: number;
  /** The members that are added to the problem document unchanged. They must not contain a secret. */
  members?: Record<string, unknown>;
}

/** A broken rule, thrown before anything is written. It is independent of HTTP: one table maps its code to a status. */
export class ProblemError extends Error {
  constructor(
    readonly code: ErrorCode,
    detail: string,
    readonly facts: ProblemFacts = {},
  ) {
    super(detail);
    this.name = 'Refusal';
  }
}

/** Returns the refusal of one field. `field` has the caller's spelling, and the message continues after "field: ". */
export function invalidField(field: string, message: string): ProblemError {
  return new ProblemError('invalid_request', `${field}: ${message}.`, { errors: [{ field, message }] });
}
