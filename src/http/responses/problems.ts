import { HttpException } from '@nestjs/common';

import { isOutage } from '../../eventsourcing/event-store/outage.ts';
import { type ErrorCode, type FieldError, ProblemError, type ProblemFacts } from '../../kernel/errors/problem-error.ts';
import { RuntimeUnavailable } from '../../runtime/runtime.errors.ts';

export const PROBLEM_TYPE = 'application/problem+json';

/** The HTTP status and the title of each code, which are defined only here. */
export const problems: Record<ErrorCode, { status: number; title: string }> = {
  invalid_request: { status: 400, title: 'The request is not valid' },
  secret_not_found: { status: 400, title: 'The account has no such secret' },
  invalid_action: { status: 400, title: 'An action is not valid' },
  coordinate_out_of_bounds: { status: 400, title: 'A coordinate is outside of the display' },
  unknown_key: { status: 400, title: 'There is no such key' },
  batch_too_long: { status: 400, title: 'The actions wait too long' },
  unauthenticated: { status: 401, title: 'A valid credential is needed' },
  plan_required: { status: 402, title: 'A plan and a payment method are needed' },
  seat_limit: { status: 402, title: 'All seats of the plan are taken' },
  computer_limit: { status: 402, title: 'All computers of the plan exist' },
  insufficient_scope: { status: 403, title: 'The credential may not do this' },
  registration_closed: { status: 403, title: 'Registration is closed' },
  origin_not_allowed: { status: 403, title: 'This origin is not allowed' },
  agent_not_found: { status: 404, title: 'There is no such agent' },
  computer_not_found: { status: 404, title: 'There is no such computer' },
  env_var_not_found: { status: 404, title: 'There is no such environment variable' },
  file_not_found: { status: 404, title: 'There is no such file' },
  template_not_found: { status: 404, title: 'There is no such template' },
  key_not_found: { status: 404, title: 'There is no such API key' },
  account_not_found: { status: 404, title: 'There is no such account' },
  conversation_not_found: { status: 404, title: 'There is no such conversation' },
  session_not_found: { status: 404, title: 'There is no such session' },
  session_closed: { status: 410, title: 'The session has ended' },
  not_found: { status: 404, title: 'Not found' },
  method_not_allowed: { status: 405, title: 'The method is not allowed here' },
  computer_conflict: { status: 409, title: 'The computer differs from what was asked for' },
  computer_asleep: { status: 409, title: 'The computer is asleep' },
  session_connected: { status: 409, title: 'A person sees the computer' },
  human_in_control: { status: 409, title: 'A person controls the computer' },
  deploy_in_progress: { status: 409, title: 'A deployment is running' },
  agent_unavailable: { status: 409, title: 'The agent is not running' },
  file_exists: { status: 409, title: 'The destination exists' },
  account_exists: { status: 409, title: 'The account exists' },
  secret_in_use: { status: 409, title: 'The secret is in use' },
  idempotency_in_progress: { status: 409, title: 'The first request with this key is still running' },
  invalid_state: { status: 409, title: 'The present state does not allow this' },
  viewer_taken: { status: 403, title: 'The link belongs to another browser' },
  volume_root_protected: { status: 403, title: 'The volume root is protected' },
  path_outside_volume: { status: 403, title: 'The path leads out of the volume' },
  payload_too_large: { status: 413, title: 'The request is too large' },
  volume_full: { status: 413, title: 'The volume is full' },
  unsupported_media_type: { status: 415, title: 'The media type is not supported' },
  range_not_satisfiable: { status: 416, title: 'The file has no such part' },
  not_acceptable: { status: 406, title: 'No acceptable form of the answer' },
  idempotency_key_reused: { status: 422, title: 'The idempotency key belongs to another request' },
  wait_timeout: { status: 408, title: 'The wait is over' },
  revision_mismatch: { status: 412, title: 'The resource has changed' },
  rate_limited: { status: 429, title: 'Too many requests' },
  busy: { status: 429, title: 'Too much waits for this computer' },
  agent_failed: { status: 502, title: 'The agent answered with an error' },
  desktop_unreachable: { status: 502, title: 'The desktop can not be reached' },
  runtime_unavailable: { status: 503, title: 'The container engine is not available' },
  capacity: { status: 503, title: 'There is no room for it' },
  desktop_unavailable: { status: 503, title: 'This machine can not show desktops' },
  event_store_unavailable: { status: 503, title: 'The event store is not available' },
  read_model_behind: { status: 503, title: 'The read model is behind' },
  reply_timeout: { status: 504, title: 'The agent did not reply in time' },
  desktop_timeout: { status: 504, title: 'The desktop does not answer' },
  internal_error: { status: 500, title: 'Something went wrong here' },
};

/** An RFC 9457 problem document. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: ErrorCode;
  request_id: string;
  errors?: FieldError[];
  [member: string]: unknown;
}

export interface ProblemResponse {
  status: number;
  headers: Record<string, string>;
  body: Problem;
}

/** The time after which a caller may retry a request that failed because a dependency was unavailable, in seconds. */
const RETRY_AFTER_SECONDS = 5;

/** Returns the response to an error. An error that is not a refusal reveals nothing internal. */
export function toProblem(error: unknown, requestId: string): ProblemResponse {
  const refusal = toProblemError(error);
  const { status, title } = problems[refusal.code];
  const { errors, members } = refusal.facts;
  const body: Problem = {
    ...members,
    type: `urn:mooring:problem:${refusal.code}`,
    title,
    status,
    detail: refusal.message,
    code: refusal.code,
    request_id: requestId,
    ...(errors ? { errors } : {}),
  };
  return { status, headers: headersOf(refusal), body };
}

function headersOf({ code, facts }: ProblemError): Record<string, string> {
  const headers: Record<string, string> = { 'content-type': PROBLEM_TYPE, 'cache-control': 'no-store' };
  if (code === 'unauthenticated') headers['www-authenticate'] = 'Bearer realm="mooring"';
  if (code === 'insufficient_scope') headers['www-authenticate'] = 'Bearer realm="mooring", error="insufficient_scope"';
  if (code === 'range_not_satisfiable') headers['content-range'] = `bytes */${String(facts.members?.size)}`;
  const wait = facts.retryAfterSeconds ?? (problems[code].status === 503 ? RETRY_AFTER_SECONDS : undefined);
  if (wait !== undefined) headers['retry-after'] = String(Math.max(1, Math.ceil(wait)));
  return headers;
}

/** Converts any error that reaches the HTTP layer into a refusal. */
export function toProblemError(error: unknown): ProblemError {
  if (error instanceof ProblemError) return error;
  if (error instanceof RuntimeUnavailable) return new ProblemError('runtime_unavailable', 'The container engine does not answer.');
  if (isOutage(error))
    return new ProblemError('event_store_unavailable', 'The store does not answer. Repeat the request with the same Idempotency-Key.');
  if (isUnstorable(error)) return new ProblemError('invalid_request', 'The request holds a value that can not be.');
  if (error instanceof HttpException) return ofStatus(error.getStatus(), {});
  const { code, statusCode } = (error ?? {}) as { code?: unknown; statusCode?: unknown };
  if (typeof code === 'string' && code.startsWith('FST_') && typeof statusCode === 'number') return ofStatus(statusCode, {});
  return new ProblemError('internal_error', 'An unexpected error. Tell the operator the request_id.');
}

/** Returns the framework's own responses with our messages. */
function ofStatus(status: number, facts: ProblemFacts): ProblemError {
  switch (status) {
    case 401:
      return new ProblemError('unauthenticated', 'A valid credential is needed.', facts);
    case 404:
    case 414:
      return new ProblemError('not_found', 'There is nothing at this address.', facts);
    case 405:
      return new ProblemError('method_not_allowed', 'The address does not take this method.', facts);
    case 406:
      return new ProblemError('not_acceptable', 'The answer does not come in the form that Accept asks for.', facts);
    case 413:
      return new ProblemError('payload_too_large', 'The body is too large.', facts);
    case 415:
      return new ProblemError('unsupported_media_type', 'The body is of a media type that this address does not take.', facts);
    default:
      return status >= 400 && status < 500
        ? new ProblemError('invalid_request', 'The request is malformed.', facts)
        : new ProblemError('internal_error', 'An unexpected error. Tell the operator the request_id.');
  }
}

/**
 * Returns whether PostgreSQL refused a text or a time that is not valid, because the route's own rules did not check it, as in an invented
 * cursor.
 */
function isUnstorable(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return code === '22021' || code === '22P05' || code === '22007' || code === '22008';
}
